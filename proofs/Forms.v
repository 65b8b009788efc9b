(* Random linear forms: so many of them take given values at what is not zero with chance 1/t each. *)
From mathcomp Require Import all_ssreflect ssralg finalg zmodp poly ssrnum ssrint rat.
From Verified Require Import Chance.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Section Forms.
Variables (J Q : finType) (F : finFieldType).                   (* entries, forms, residues *)

Definition weights : finType := [the finType of {ffun Q * J -> F}].               (* r *)
Definition form_of (r : weights) (v : J -> F) (q : Q) : F := \sum_j r (q, j) * v j.

Lemma form_ofB (r : weights) (u v : J -> F) (q : Q) : form_of r (fun j => u j - v j) q = form_of r u q - form_of r v q.
Proof. by rewrite -sumrB; apply: eq_bigr => j _; rewrite mulrBr. Qed.

Lemma form_ofD (r : weights) (u v : J -> F) (q : Q) : form_of r (fun j => u j + v j) q = form_of r u q + form_of r v q.
Proof. by rewrite -big_split; apply: eq_bigr => j _; rewrite mulrDr. Qed.

Lemma eq_form_of (r : weights) (u v : J -> F) (q : Q) : u =1 v -> form_of r u q = form_of r v q.
Proof. by move=> uv; apply: eq_bigr => j _; rewrite uv. Qed.

Lemma form_of0 (r : weights) (v : J -> F) (q : Q) : (forall j, v j = 0) -> form_of r v q = 0.
Proof. by move=> v0; apply: big1 => j _; rewrite v0 mulr0. Qed.

Theorem random_forms (A : {set Q}) (e : J -> F) (b : Q -> F) (j0 : J) : e j0 != 0 ->
  Pr [pred r : weights | [forall q in A, form_of r e q == b q]] <= 1 / (#|F| ^ #|A|)%:R.
Proof.
move=> e0; have -> : (#|F| ^ #|A| = #|[the finType of {ffun {q | q \in A} -> F}]|)%N by rewrite card_ffun card_sig.
pose extra (v : {ffun {q | q \in A} -> F}) (q : Q) : F := if insub q is Some q' then v q' else 0.
pose shift v (r : weights) : weights := [ffun qj => r qj + (if qj.2 == j0 then extra v qj.1 else 0)].
apply: (@Pr_one_of _ _ _ shift) => [|v r r' /ffunP same|r v v' /forall_inP one /forall_inP other].
- by apply/card_gt0P; exists [ffun=> 0].
- by apply/ffunP => qj; have := same qj; rewrite !ffunE => /addIr.
have moved u q : form_of (shift u r) e q = form_of r e q + extra u q * e j0.
  rewrite /form_of (bigD1 j0) //= [in RHS](bigD1 j0) //= addrAC ffunE eqxx mulrDl; congr (_ + _).
  by apply: eq_bigr => j /negbTE jj0; rewrite ffunE /= jj0 addr0.
apply/ffunP => -[q qA]; have := eqP (one q qA); have := eqP (other q qA); rewrite !moved => <- /addrI/(mulIf e0).
by rewrite /extra insubT.
Qed.
End Forms.

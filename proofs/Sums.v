(* What is released: sums of products of linear forms of a sketch (fhe_auc/sums/terms.py). *)
From mathcomp Require Import all_ssreflect ssralg finalg zmodp poly ssrnum ssrint rat.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(** * What is summed *)
Section Sums.
Variable J : finType.                                           (* the entries of a sketch *)

Definition form : Type := J -> int.                             (* weights of the entries *)
Definition term : Type := int * seq form.                       (* a constant times a product of linear forms *)
Definition msum : Type := seq term.

Definition form_at (R : comRingType) (l : form) (x : J -> R) : R := \sum_j (l j)%:~R * x j.
Definition value (R : comRingType) (f : msum) (x : J -> R) : R :=
  \sum_(t <- f) t.1%:~R * \prod_(l <- t.2) form_at l x.
Definition degree (f : msum) : nat := \max_(t <- f) size t.2.

Lemma eq_value (R : comRingType) (f : msum) (x y : J -> R) : x =1 y -> value f x = value f y.
Proof.
move=> xy; apply: eq_bigr => t _; congr (_ * _); apply: eq_bigr => l _.
by apply: eq_bigr => j _; rewrite xy.
Qed.

Lemma value_morph (R R' : comRingType) (phi : {rmorphism R -> R'}) (f : msum) (x : J -> R) :
  phi (value f x) = value f (fun j => phi (x j)).
Proof.
rewrite /value rmorph_sum; apply: eq_bigr => t _; rewrite rmorphM rmorph_int rmorph_prod; congr (_ * _).
by apply: eq_bigr => l _; rewrite /form_at rmorph_sum; apply: eq_bigr => j _; rewrite rmorphM rmorph_int.
Qed.

Lemma horner_value (R : comRingType) (f : msum) (x : J -> {poly R}) (a : R) :
  (value f x).[a] = value f (fun j => (x j).[a]).
Proof. exact: (value_morph [the {rmorphism {poly R} -> R} of horner_eval a]). Qed.

Lemma size_plus (R : ringType) (p q : {poly R}) (n : nat) :
  (size p <= n -> size q <= n -> size (p + q)%R <= n)%N.
Proof.
move=> /leq_sizeP p0 /leq_sizeP q0; apply/leq_sizeP => i ni.
by rewrite coefD p0 ?q0 ?addr0.
Qed.

(* Of linear polynomials a sum of degree d makes a polynomial of degree d at most. *)
Lemma size_value (F : fieldType) (f : msum) (x : J -> {poly F}) :
  (forall j, size (x j) <= 2)%N -> (size (value f x) <= (degree f).+1)%N.
Proof.
have scaled n (p : {poly F}) : (size (n%:~R * p)%R <= size p)%N.
  by rewrite mulrzl -scaler_int size_scale_leq.
move=> x2; have form2 l : (size (form_at l x) <= 2)%N.
  apply: leq_trans (size_sum _ _ _) _; apply/bigmax_leqP => j _.
  exact: leq_trans (scaled _ _) (x2 j).
have prod_size ls : (size (\prod_(l <- ls) form_at l x)%R <= (size ls).+1)%N.
  elim: ls => [|l ls IH]; first by rewrite big_nil size_poly1.
  rewrite big_cons; apply: leq_trans (size_mul_leq _ _) _.
  by rewrite -ltnS; case: (size _ + size _)%N (leq_add (form2 l) IH).
elim: f => [|t f IH]; first by rewrite /value big_nil size_poly0.
rewrite /value /degree !big_cons; apply: size_plus.
  by apply: leq_trans (scaled _ _) (leq_trans (prod_size _) _); rewrite ltnS leq_maxl.
by apply: leq_trans IH _; rewrite ltnS leq_maxr.
Qed.

(* Entries that some weight is on. *)
Definition weighs (f : msum) (j : J) : bool := has (fun t : term => has (fun l : form => l j != 0) t.2) f.

Lemma eq_taken (R : comRingType) (f : msum) (x y : J -> R) : (forall j, weighs f j -> x j = y j) -> value f x = value f y.
Proof.
elim: f => [|t f IH] xy; rewrite /value ?big_nil // !big_cons; congr (_ * _ + _); last first.
  by apply: IH => j taken; apply: xy; rewrite /weighs /= -/(weighs f j) taken orbT.
have {IH} {}xy j : has (fun l : form => l j != 0) t.2 -> x j = y j by move=> taken; apply: xy; rewrite /weighs /= taken.
elim: (t.2) xy => [|l ls IH] xy; rewrite ?big_nil // !big_cons; congr (_ * _); last first.
  by apply: IH => j taken; apply: xy; rewrite /= taken orbT.
apply: eq_bigr => j _; have [->|lj] := eqVneq (l j) 0; first by rewrite !mul0r.
by rewrite xy //= lj.
Qed.
End Sums.

(** * Sums of a sketch whose entries are sums of those that are sent *)
Section Made.
Variables (J J' : finType) (parts : J -> J' -> int).

Definition made (R : comRingType) (x : J' -> R) (j : J) : R := \sum_j' (parts j j')%:~R * x j'.
Definition of_parts (f : msum J) : msum J' :=
  [seq (t.1, [seq (fun j' => \sum_j l j * parts j j') | l : form J <- t.2]) | t : term J <- f].

Lemma value_of_parts (R : comRingType) (f : msum J) (x : J' -> R) : value (of_parts f) x = value f (made x).
Proof.
rewrite /value big_map; apply: eq_bigr => t _; rewrite big_map; congr (_ * _); apply: eq_bigr => l _.
rewrite /form_at; under eq_bigr do rewrite rmorph_sum mulr_suml; rewrite exchange_big; apply: eq_bigr => j _ /=.
by rewrite /made mulr_sumr; apply: eq_bigr => j' _; rewrite rmorphM mulrA.
Qed.

Lemma degree_of_parts (f : msum J) : degree (of_parts f) = degree f.
Proof. by rewrite /degree big_map; apply: eq_bigr => t _; rewrite size_map. Qed.
End Made.

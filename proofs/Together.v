(* Authenticators and vectors under one common secret: a session of both. HKDF derives the secrets of each apart, so
   they are independent; but the aggregator sees all that is sent, and every verdict of either kind before its next
   result. *)
From mathcomp Require Import all_ssreflect ssralg finalg zmodp poly ssrnum ssrint rat.
From Verified Require Import Chance Sums Authenticators Game Session Integers Vectors.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Section Together.
(* As of `verified`. *)
Variables (I J S P : finType) (f : S -> msum J) (d : nat) (t : P -> nat) (least m : nat) (lo : S -> int).
Variables (shows : (S -> int) -> S -> bool) (sketch : I * J -> int) (absent : {set I}).
Hypotheses (t_prime : forall p, prime (t p)) (t_differ : injective t).
Hypotheses (t_least : forall p, (least <= t p)%N) (m_positive : (0 < m)%N).
Hypotheses (d_most : forall s, (degree (f s) <= d)%N) (d_small : (d < least)%N).
Variables (p0 : P) (s0 : S).
Hypothesis blinded : (1 < degree (f s0))%N.
Hypothesis ranges : forall (L : {set I}) (s : S), in_range t (lo s) (exact f sketch L s) \/
  (forall z : S -> int, (forall s', in_range t (lo s') (exact f sketch L s') -> z s' = exact f sketch L s') ->
    ~~ shows z s).

(* As of `verified_vectors`. *)
Variables (J' Q : finType) (t' m' : nat) (vector : I * J' -> int) (absent' : {set I}).
Hypotheses (t'_prime : prime t') (t'_large : (2 < t')%N) (m'_positive : (0 < m')%N).
Hypothesis not_beyond : forall ij, `|vector ij| <= (t'./2 %/ #|I|)%N%:Z.
Local Notation F' := (field (fun _ : 'I_1 => t') ord0).

Definition both_keys : finType := [the finType of (keys I f (field t) * vector_keys I J' Q F')%type].
Definition both_secrets : finType := [the finType of (secrets I f (field t) * pads I J' Q F')%type].
Definition both_sent (a : both_keys) (x : both_secrets) : both_secrets :=
  (sent (residues t sketch) a.1.1 x.1, tagged (vector_residues t' vector) a.2.1 x.2).
Definition both_unsent (a : both_keys) (y : both_secrets) : both_secrets :=
  (unsent (residues t sketch) a.1.1 y.1, untagged (vector_residues t' vector) a.2.1 y.2).

Definition either : Type := result I S (field t) + pool I J' Q F'.
Definition is_vector (c : either) : bool := if c is inl _ then false else true.
Definition either_evaluating (c : either) : {set I} := match c with inl c => evaluating c | inr c => reading c end.
Definition either_accepts (a : both_keys) (x : both_secrets) (c : either) : bool :=
  match c with inl c => accepts absent a.1 x.1 c | inr c => vector_accepts absent' a.2 x.2 c end.
Definition either_right (y : both_secrets) (c : either) : bool :=
  match c with inl c => right (residues t sketch) absent y.1 c | inr c => vector_right absent' y.2 c end.
Definition either_misled (x : both_secrets) (c : either) : bool :=
  match c with inl c => misled f lo shows sketch absent c | inr c => vector_misled vector absent' x.2 c end.
Definition either_least (v : bool) : nat := if v then m' else m.
Definition either_chance (v : bool) : rat := if v then vector_chance Q F' else chance d least.

Variable aggregator : both_secrets -> seq bool -> either.

Definition either_deceived (tries : nat) (a : both_keys) (x : both_secrets) : bool :=
  let y := both_sent a x in
  let verdicts := Game.verdicts both_sent is_vector either_evaluating either_accepts either_least aggregator a x in
  [exists n : 'I_tries, let c := aggregator y (verdicts n) in
    [&& Game.evaluated is_vector either_evaluating either_least aggregator y (verdicts n),
        either_accepts a x c & either_misled x c]].

Theorem verified_together (tries : nat) :
  Pr [pred ax : both_keys * both_secrets | either_deceived tries ax.1 ax.2]
    <= (#|I| %/ m * d)%:R / least.-1%:R + (#|I| %/ m')%:R / (t' ^ #|Q|)%:R.
Proof.
have least1 : (1 < least)%N by apply: leq_trans (leq_trans blinded (d_most s0)) (ltnW d_small).
have field_least p : (least <= #|field t p|)%N by rewrite card_Fp.
have chance_ge0 v : 0 <= either_chance v by case: v; rewrite divr_ge0 ?ler0n.
have sendK a : cancel (both_sent a) (both_unsent a).
  by move=> [x k]; rewrite /both_unsent /= (sentK _ a.1) (taggedK _ a.2).
have unsendK a : cancel (both_unsent a) (both_sent a).
  by move=> [x k]; rewrite /both_sent /= (unsentK _ a.1) (untaggedK _ a.2).
have := @fooled_rarely I _ _ _ _ _ _ sendK unsendK either is_vector either_evaluating either_accepts
  either_right either_least _ aggregator _ either_chance chance_ge0 _ tries.
have -> : (#|I| %/ m')%:R / (t' ^ #|Q|)%:R = (#|I| %/ m')%:R * vector_chance Q F' :> rat.
  by rewrite /vector_chance card_Fp // mul1r.
rewrite big_bool /= addrC natrM -mulrA => bound.
apply: le_trans (Pr_le _) (bound _ _ _).
- move=> [a x] /= /existsP [n /and3P [ev pass wrong]]; apply/existsP; exists n; rewrite /= ev pass /=.
  move: wrong {ev pass}; case: (aggregator _ _) => c.
    exact: (@misled_is_wrong _ _ _ _ _ _ _ least).
  by move=> wrong; apply: (@vector_misled_is_wrong _ _ _ _ _ _ _ _ _ a.2.1) => //; rewrite taggedK.
- by case.
- by move=> a y [] c; [apply: right_is_accepted | apply: vector_right_is_accepted].
move=> y [] c wrong /=.
  apply: le_trans (Pr_first _ [pred a | accepts absent a (unsent (residues t sketch) a.1 y.1) c]) _.
  exact: (@wrong_is_refused _ _ _ _ _ _ _ _ d least d_most field_least least1 p0 s0 blinded) wrong.
apply: le_trans (Pr_second _ [pred a | vector_accepts absent' a (untagged (vector_residues t' vector) a.1 y.2) c]) _.
exact: vector_wrong_is_refused.
Qed.
End Together.

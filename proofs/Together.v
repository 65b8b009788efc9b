(* Authenticators and vectors under one common secret: a session of both. HKDF derives the secrets of each apart, so
   they are independent; but the aggregator sees all that has been sent, and every verdict of either kind, before its
   next turn. A party submits the two whenever the aggregator likes: inl i is its sketch, inr i its vector. *)
From mathcomp Require Import all_ssreflect ssralg finalg zmodp poly ssrnum ssrint rat.
From Verified Require Import Chance Sums Authenticators Game Session Integers Vectors.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Section Together.
(* As of `verified`. *)
Variables (I S P : finType) (takes : P -> pred S).
Local Notation own := (fun p => [the finType of {s : S | takes p s}]).
Variables (J : P -> finType) (f : forall p, own p -> msum (J p)) (d : nat) (t : P -> nat) (least m : nat) (lo : S -> int).
Variables (shows : (S -> int) -> S -> bool) (sketch : forall p, I * J p -> int) (exact : {set I} -> S -> int).
Hypotheses (t_prime : forall p, prime (t p)) (t_differ : injective t).
Hypotheses (t_least : forall p, (least <= t p)%N) (m_positive : (0 < m)%N).
Hypotheses (d_most : forall p (s : own p), (degree (f s) <= d)%N) (d_small : (d < least)%N).
Variables (p0 : P) (s0 : own p0).
Hypothesis blinded : (1 < degree (f s0))%N.
Hypothesis sums_exact : forall p (s : own p) (L : {set I}),
  value (f s) (fun j => \sum_(i in L) sketch (i, j)) = exact L (val s).
Hypothesis ranges : forall (L : {set I}) (s : S), ranged takes t lo exact L s \/
  (forall z : S -> int, (forall s', ranged takes t lo exact L s' -> z s' = exact L s') -> ~~ shows z s).

(* As of `verified_vectors`. *)
Variables (J' Q : finType) (t' m' : nat) (vector : I * J' -> int).
Hypotheses (t'_prime : prime t') (t'_large : (2 < t')%N) (m'_positive : (0 < m')%N).
Hypothesis not_beyond : forall ij, `|vector ij| <= (t'./2 %/ #|I|)%N%:Z.
Local Notation F' := (field (fun _ : 'I_1 => t') ord0).

Definition both_keys : finType := [the finType of (points (field t) * Forms.weights J' Q F')%type].
Definition both_secrets : finType := [the finType of (secrets I f (field t) * pads I J' Q F')%type].
Definition both_sent (a : both_keys) (x : both_secrets) : both_secrets :=
  (sent (residues t (@sketch)) a.1 x.1, tagged (vector_residues t' vector) a.2 x.2).
Definition both_unsent (a : both_keys) (y : both_secrets) : both_secrets :=
  (unsent (residues t (@sketch)) a.1 y.1, untagged (vector_residues t' vector) a.2 y.2).
Definition sketches (D : {set I + I}) : {set I} := [set i | inl i \in D].
Definition vectors (D : {set I + I}) : {set I} := [set i | inr i \in D].
Definition both_shown (D : {set I + I}) (y : both_secrets) : both_secrets :=
  (shown (sketches D) y.1, vector_shown (vectors D) y.2).

Definition either : Type := result I own (field t) + pool I J' Q F'.
Definition is_vector (c : either) : bool := if c is inl _ then false else true.
Definition either_evaluating (c : either) : {set I} := match c with inl c => evaluating c | inr c => reading c end.
Definition either_counting (c : either) : {set I + I} :=
  match c with inl c => inl @: counted c | inr c => inr @: named c end.
Definition either_accepts (a : both_keys) (x : both_secrets) (c : either) : bool :=
  match c with inl c => accepts a.1 x.1 c | inr c => vector_accepts a.2 x.2 c end.
Definition either_correct (y : both_secrets) (c : either) : bool :=
  match c with inl c => correct (residues t (@sketch)) y.1 c | inr c => vector_correct y.2 c end.
Definition either_misled (x : both_secrets) (D : {set I + I}) (c : either) : bool :=
  match c with
  | inl c => misled (takes := takes) (t := t) lo shows exact (sketches D) c
  | inr c => vector_misled vector (vectors D) x.2 c
  end.
Definition either_least (v : bool) : nat := if v then m' else m.
Definition either_chance (v : bool) : rat := if v then vector_chance Q F' else chance d least.

Variable aggregator : both_secrets -> seq bool -> (I + I) + either.

Definition either_deceived (turns : nat) (a : both_keys) (x : both_secrets) : bool :=
  Game.some_accepted both_sent both_shown is_vector either_evaluating either_accepts either_least aggregator
    (either_misled x) turns a x.

Lemma sketches_counted (D : {set I + I}) (L : {set I}) : (inl @: L \subset D) = (L \subset sketches D).
Proof.
apply/subsetP/subsetP => sub => [i iL|_ /imsetP [i iL ->]]; first by rewrite inE sub // imset_f.
by have := sub i iL; rewrite inE.
Qed.
Lemma vectors_counted (D : {set I + I}) (L : {set I}) : (inr @: L \subset D) = (L \subset vectors D).
Proof.
apply/subsetP/subsetP => sub => [i iL|_ /imsetP [i iL ->]]; first by rewrite inE sub // imset_f.
by have := sub i iL; rewrite inE.
Qed.

Theorem verified_together (turns : nat) :
  Pr [pred ax : both_keys * both_secrets | either_deceived turns ax.1 ax.2]
    <= (#|I| %/ m * d)%:R / least.-1%:R + (#|I| %/ m')%:R / (t' ^ #|Q|)%:R.
Proof.
have least1 : (1 < least)%N by apply: leq_trans (leq_trans blinded (d_most s0)) (ltnW d_small).
have field_least p : (least <= #|field t p|)%N by rewrite card_Fp.
have chances_ge0 v : 0 <= either_chance v by case: v; rewrite divr_ge0 ?ler0n.
have sendK a : cancel (both_sent a) (both_unsent a).
  by move=> [x k]; rewrite /both_unsent /= (sentK _ a.1) (taggedK _ a.2).
have unsendK a : cancel (both_unsent a) (both_sent a).
  by move=> [x k]; rewrite /both_sent /= (unsentK _ a.1) (untaggedK _ a.2).
have shownK (D D' : {set I + I}) y : D' \subset D -> both_shown D' (both_shown D y) = both_shown D' y.
  move=> /subsetP sub; rewrite /both_shown /= shown_before ?vector_shown_before //; apply/subsetP => i;
    rewrite !inE; exact: sub.
have := @fooled_rarely I _ _ _ _ _ _ _ sendK unsendK _ shownK either is_vector either_evaluating either_counting
  either_accepts either_correct either_least _ aggregator _ _ either_chance chances_ge0 _ _ turns.
have -> : (#|I| %/ m')%:R / (t' ^ #|Q|)%:R = (#|I| %/ m')%:R * vector_chance Q F' :> rat.
  by rewrite /vector_chance card_Fp // mul1r.
rewrite big_bool /= addrC natrM -mulrA => bound.
apply: le_trans (Pr_le _) (bound _ _ _ _ _).
- move=> [a x] /=; apply: Game.some_accepted_le => D [] c /=; rewrite /right /= ?sketches_counted ?vectors_counted.
    exact: (misled_is_wrong t_prime t_differ t_least d_most d_small sums_exact ranges).
  by move=> wrong; apply: (@vector_misled_is_wrong _ _ _ _ _ _ _ _ _ a.2) => //; rewrite taggedK.
- by case.
- move=> D y [] c /=; rewrite ?sketches_counted ?vectors_counted; first exact: correct_shown.
  exact: vector_correct_shown.
- by move=> a y [] c; [apply: correct_is_accepted | apply: vector_correct_is_accepted].
- move=> y [] c wrong /=.
    apply: le_trans (Pr_first _ [pred a | accepts a (unsent (residues t (@sketch)) a y.1) c]) _.
    exact: (@wrong_is_refused _ _ _ _ _ _ _ d least d_most field_least least1) wrong.
  apply: le_trans (Pr_second _ [pred a | vector_accepts a (untagged (vector_residues t' vector) a y.2) c]) _.
  exact: vector_wrong_is_refused.
move=> a D y [] c _ /imsetP [i iL ->] iD /=.
- rewrite (_ : Pr [pred y' | both_shown D y' == both_shown D y]
      = Pr [pred y' | shown (sketches D) y' == shown (sketches D) y.1]
        * Pr [pred y' | vector_shown (vectors D) y' == vector_shown (vectors D) y.2]); last first.
    by rewrite -Pr_both; congr (_%:R / _); apply: eq_card => y'; rewrite !inE.
  rewrite mulrA; apply: le_trans (times_le (Pr_ge0 _) (@unsent_is_noticed _ _ _ _ _ _ (residues t (@sketch)) d least d_most
    field_least least1 p0 s0 blinded a.1 (sketches D) y.1 c i iL _)); last by rewrite inE.
  rewrite -Pr_both; apply: Pr_le => y' /=; rewrite xpair_eqE; by case/andP => /andP [-> ->] ->.
rewrite (_ : Pr [pred y' | both_shown D y' == both_shown D y]
    = Pr [pred y' | vector_shown (vectors D) y' == vector_shown (vectors D) y.2]
      * Pr [pred y' | shown (sketches D) y' == shown (sketches D) y.1]); last first.
  by rewrite mulrC -Pr_both; congr (_%:R / _); apply: eq_card => y'; rewrite !inE.
rewrite mulrA; apply: le_trans (times_le (Pr_ge0 _) (@vector_unsent_is_noticed _ _ _ _ (vector_residues t' vector) a.2
  (vectors D) y.2 c i iL _)); last by rewrite inE.
rewrite mulrC -Pr_both; apply: Pr_le => y' /=; rewrite xpair_eqE; by case/andP => /andP [-> ->] ->.
Qed.
End Together.

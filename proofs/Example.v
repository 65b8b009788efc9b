(* Premises can be met. Of `verified_analysis` all at once: two parties with a row each, one of each label, one model,
   group and bin, every kind of sum, at most two rows, and the prime 1031. *)
From mathcomp Require Import all_ssreflect ssralg finalg zmodp poly ssrnum ssrint rat.
From Verified Require Import Chance Sums Forms Authenticators Session Integers Analysis Vectors Inputs.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import GRing.Theory.
Local Open Scope ring_scope.

Local Notation labels := [the finType of 'I_2].
Local Notation one := [the finType of 'I_1].                    (* models, groups, primes *)
Local Notation parties := [the finType of 'I_2].
Definition modulus (_ : one) : nat := 1031.
Definition rows_of (i : parties) : seq (row one one labels 1 1 1) :=
  [:: Row i (fun=> true) (fun=> ord0) (fun=> ord0) (fun=> ord0)].
Definition negative : labels := ord0.
Definition positive : labels := ord_max.
Definition auc : contrast one one labels := Contrast ord0 (fun b => (ord0, [set if b then positive else negative])).
Definition own (i : parties) (j : own_entry one) : int := 0.

Definition kinds : seq (released one one labels) :=
  [:: Rows _ ord0 negative; Rows _ ord0 positive; Difference auc; Ties auc; Squares auc true; Squares auc false;
      First _ _ ord0 true; Second _ _ ord0 false; Mixed _ _ ord0 ord0 true; Site _ _ ord0 ord0].
Definition kind (s : 'I_10) : released one one labels := nth (Difference auc) kinds s.
Definition rows_of_class (c : labels) : [the finType of 'I_10] := widen_ord (isT : (2 <= 10)%N) c.

Lemma T1031 : T modulus = 1031%N. Proof. by rewrite /T big_ord1. Qed.

Lemma sites_cut_off (i : parties) (s : one * 'I_11) :
  `|own i s| <= (1 * maxn (size (rows_of i) ^ 2) (256 * size (rows_of i)))%N%:Z.
Proof. by []. Qed.
Lemma rows_released (c : labels) : kind (rows_of_class c) = Rows _ ord0 c.
Proof. by case: c => -[|[|]] // ?; congr (Rows _ _ _); apply: val_inj. Qed.
Lemma differ : injective modulus. Proof. by move=> p q _; rewrite [p]ord1 [q]ord1. Qed.
Lemma degrees (s : 'I_10) : (degree_of (kind s) <= 3)%N.
Proof. by case: s => -[|[|[|[|[|[|[|[|[|[|]]]]]]]]]]. Qed.
Lemma apart (s : 'I_10) : contrast_apart (kind s).
Proof. by case: s => -[|[|[|[|[|[|[|[|[|[|]]]]]]]]]] //= ?; rewrite /Analysis.apart disjoints1 inE. Qed.
Lemma T_large (s : 'I_10) : (room 1 2 1 (kind s) < T modulus)%N.
Proof. by rewrite T1031; case: s => -[|[|[|[|[|[|[|[|[|[|]]]]]]]]]] //= ?; rewrite card_ord. Qed.
Lemma all_rows : (\sum_i size (rows_of i) < T modulus)%N. Proof. by rewrite T1031 big_ord_recr big_ord1. Qed.

(* For every aggregator. *)
Definition instance := @verified_analysis one one labels 1 1 1 ord0 ord0 positive negative parties
  [the finType of 'I_10] one modulus 1031 2 2 3 rows_of own 1 sites_cut_off kind rows_of_class (@Ordinal 10 2 isT) auc
  rows_released erefl (fun=> isT) differ (fun=> leqnn _) isT isT degrees isT ord0 isT apart T_large all_rows.

(* And there are secrets to choose from: the chance is not of nothing. *)
Lemma secrets_exist (I J S P : finType) (f : S -> msum J) (F : P -> finFieldType) :
  (0 < #|[the finType of (points F * secrets I f F)%type]|)%N.
Proof.
have a p : point (F p) by exists 1; exact: oner_neq0.
by apply/card_gt0P; exists ([ffun p => a p], [ffun p => ([ffun=> 0], [ffun=> 0], [ffun=> 0])]).
Qed.

(* Of `verified_vectors`: one entry, at most 1 in absolute value, of two parties, modulo 5. *)
Lemma not_beyond (ij : parties * one) : `|1%:Z| <= (5./2 %/ #|parties|)%N%:Z. Proof. by rewrite card_ord. Qed.
Definition vectors_instance := @verified_vectors parties one [the finType of 'I_2] 5 1 isT isT isT (fun=> 1) not_beyond.

(* Of input proofs: that 3 is a binary digit, in one call, with the points 1 and -1 modulo 5. *)
Definition roots (c : option one) : 'F_5 := if c is None then 1 else -1.
Lemma roots_differ : injective roots. Proof. by move=> [c|] [e|] // _; rewrite [c]ord1 [e]ord1. Qed.
Definition inputs_instance :=
  @false_proof_passes_rarely one one [the finFieldType of 'F_5] 2 (fun=> 3%:R) one roots roots_differ isT.

(* And the game can be won honestly: an aggregator that has both submit, and gives the right sums, is believed. *)
Local Notation F := (field (fun _ : 'I_1 => 5%N) ord0).
Local Notation two := [the finType of 'I_2].
Definition right_sums (y : pads parties one two F) : pool parties one two F :=
  Pool setT setT (pooled setT y.1) (fun q => \sum_(i in setT) y.2 (i, q)).
Definition honest (y : pads parties one two F) (verdicts : seq bool) : (parties + pool parties one two F)%type :=
  if verdicts is [::] then inl ord0 else if verdicts is [:: _] then inl ord_max else
  inr (right_sums y).
Arguments vector_shown : simpl never.
Arguments tagged : simpl never.
Arguments right_sums : simpl never.
Lemma honest_is_believed (w : entries parties one F) (r : weights one two F) (k : pads parties one two F) :
  Game.some_accepted (tagged w) (@vector_shown parties one two F) (fun=> ord0 : 'I_1) (@reading parties one two F)
    (@vector_accepts parties one two F) (fun=> 2%N) honest
    (fun D c => Game.right (@named parties one two F) (@vector_correct parties one two F) D (tagged w r k) c) 3 r k.
Proof.
apply/existsP; exists (@Ordinal 3 2 isT) => /=; rewrite /Game.evaluated /Game.turn /=.
set y := tagged w r k; have all : ord_max |: (ord0 |: set0) = setT :> {set parties}.
  by apply/setP => -[[|[|]] //= ?]; rewrite !inE.
have shows : vector_shown setT y = y.
  by rewrite /vector_shown; case: {k} y => k k'; congr (_, _); apply/ffunP => ?; rewrite ffunE inE.
rewrite /Game.fresh all shows /= cardsT card_ord /= /Game.turn /= -setI_eq0 setI0 eqxx.
have ok : vector_correct y (right_sums y).
  by apply/andP; split; apply/forallP => ?.
have := vector_correct_is_accepted w r ok; rewrite /y taggedK => -> /=.
by rewrite /Game.right subsetT.
Qed.

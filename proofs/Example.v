(* Premises can be met. Of `verified_analysis` all at once: two parties with a row each, one of each label, one model
   and group, two bins that are merged, every kind of sum, at most two rows; and the primes 1031, with all sums and all
   counts but merged ones, and 1033, with Q10 and Q01 of merged bins, and no other counts. *)
From mathcomp Require Import all_ssreflect ssralg finalg zmodp poly ssrnum ssrint rat.
From Verified Require Import Chance Sums Forms Authenticators Session Integers Analysis Vectors Inputs.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import GRing.Theory.
Local Open Scope ring_scope.

Local Notation labels := [the finType of 'I_2].
Local Notation one := [the finType of 'I_1].                    (* models, groups *)
Local Notation two := [the finType of 'I_2].
Local Notation parties := [the finType of 'I_2].
Local Notation primes := [the finType of (bool : Type)].
Local Notation sums := [the finType of 'I_13].
Definition modulus (second : primes) : nat := (if second then 1033 else 1031)%N.
Definition merge (k : 'I_2) : 'I_1 := ord0.
Definition rows_of (i : parties) : seq (row one one labels 2 1 1) :=
  [:: Row i (fun=> true) (fun=> i) (fun=> ord0) (fun=> ord0)].
Definition negative : labels := ord0.
Definition positive : labels := ord_max.
Definition auc : contrast one one labels := Contrast ord0 (fun b => (ord0, [set if b then positive else negative])).
Definition own (i : parties) (j : own_entry one) : int := 0.

Definition kinds : seq (released one one labels 2 1) :=
  [:: Rows _ _ _ ord0 negative; Rows _ _ _ ord0 positive; Squares _ _ true auc true; Squares _ _ true auc false;
      Difference _ _ false auc; Difference _ _ true auc; @Ties _ _ _ _ _ false auc setT; @Ties _ _ _ _ _ true auc setT;
      @OneLabel _ _ _ _ _ true auc true setT; First _ _ _ _ ord0 true; Second _ _ _ _ ord0 false;
      Mixed _ _ _ _ ord0 ord0 true; Site _ _ _ _ ord0 ord0].
Definition kind (s : sums) : released one one labels 2 1 := nth (Difference _ _ false auc) kinds s.
Definition rows_of_class (c : labels) : sums := widen_ord (isT : (2 <= 13)%N) c.
Definition takes_sum (second : primes) : pred sums := fun s => (~~ second || (val s == 2) || (val s == 3))%N.
Definition sent (second : primes) : pred (entry one one labels 2 1 1) := fun j => is_merged j == second.

Ltac each_kind s := case: s => -[|[|[|[|[|[|[|[|[|[|[|[|[|]]]]]]]]]]]]].

Lemma sites_cut_off (i : parties) (s : one * 'I_11) :
  `|own i s| <= (1 * maxn (size (rows_of i) ^ 2) (256 * size (rows_of i)))%N%:Z.
Proof. by []. Qed.
Lemma rows_released (c : labels) : kind (rows_of_class c) = Rows _ _ _ ord0 c.
Proof. by case: c => -[|[|]] // ?; congr (Rows _ _ _ _ _); apply: val_inj. Qed.
Lemma primes_prime (p : primes) : prime (modulus p). Proof. by case: p. Qed.
Lemma differ : injective modulus. Proof. by do 2! case. Qed.
Lemma large (p : primes) : (1031 <= modulus p)%N. Proof. by case: p. Qed.
Lemma degrees (s : sums) : (degree_of (kind s) <= 3)%N. Proof. by each_kind s. Qed.
Lemma apart (s : sums) : contrast_apart (kind s).
Proof. by each_kind s => //= ?; rewrite /Analysis.apart disjoints1 inE. Qed.
Lemma T_large (s : sums) : (room 1 parties 2 1 (kind s) < T (primes_of takes_sum modulus s))%N.
Proof.
have T1031 : (1031 <= T (primes_of takes_sum modulus s))%N.
  rewrite /T (bigD1 (exist _ false isT)) //= leq_pmulr // prodn_gt0 // => p.
  exact: leq_trans (large _).
by apply: leq_trans T1031; each_kind s => //= ?; rewrite card_ord.
Qed.

Lemma weight_somewhere (K : finType) (place : K -> entry one one labels 2 1 1) (weight : K -> int) j :
  weighted place weight j != 0 -> exists k, place k = j.
Proof.
case: (pickP (fun k => place k == j)) => [k /eqP <- _|none]; first by exists k.
by rewrite /weighted big_pred0 // eqxx.
Qed.
Lemma all_there (second : primes) (s : sums) (j : entry one one labels 2 1 1) :
  takes_sum second s -> weighs (sum_of _ ord0 positive negative (kind s)) j -> there merge sent second j.
Proof.
rewrite /there /sent; case: second => [|_ _]; last first.
  case: (is_merged j) => //=; apply/forallP => j'; apply/implyP.
  case: j => [[[[[[m g] c] [[] k]]|?]|?]|?] //=; rewrite ?eqxx //.
  by move/weight_somewhere => [i <-].
move=> cubic; suff merged b : weighs (sum_of 1 ord0 positive negative (Squares _ _ true auc b)) j -> is_merged j.
  by case/orP: cubic => /eqP s2; rewrite /kind s2 => /merged ->.
rewrite /weighs /sum_of has_map => /hasP [k _ /=]; rewrite orbF.
by case/or3P => /weight_somewhere [i <-].
Qed.
Lemma each_few (i : parties) : (size (rows_of i) <= 2)%N. Proof. by []. Qed.

(* For every aggregator. *)
Definition instance := @verified_analysis one one labels 2 1 1 1 merge ord0 ord0 positive negative parties sums primes
  modulus 1031 2 2 3 rows_of own 1 sites_cut_off kind takes_sum rows_of_class false (@Ordinal 13 4 isT) auc
  rows_released erefl isT sent all_there primes_prime differ large isT isT degrees isT isT apart T_large each_few.

(* And there are secrets to choose from: the chance is not of nothing. *)
Lemma secrets_exist (I P : finType) (J S : P -> finType) (f : forall p, S p -> msum (J p)) (F : P -> finFieldType) :
  (0 < #|[the finType of (points F * secrets I f F)%type]|)%N.
Proof.
have a p : point (F p) by exists 1; exact: oner_neq0.
by apply/card_gt0P; exists ([ffun p => a p], [ffun p => ([ffun=> 0], [ffun=> 0], [ffun=> 0])]).
Qed.

(* Of `verified_vectors`: one entry, at most 1 in absolute value, of two parties, modulo 5. *)
Lemma not_beyond (ij : parties * one) : `|1%:Z| <= (5./2 %/ #|parties|)%N%:Z. Proof. by rewrite card_ord. Qed.
Definition vectors_instance := @verified_vectors parties one [the finType of 'I_2] 5 1 isT isT isT (fun=> 1) not_beyond.

(* Of input proofs modulo 7: two proofs, one digit, in one call, at 1; seeds at 2 and 3; quotients by values at 2 … 5. *)
Definition nodes (k : one + two) : 'F_7 := match k with inl _ => 1 | inr m => (2 + m)%:R end.
Definition at_points (q : 'I_4) : 'F_7 := (2 + q)%:R.
Lemma nodes_differ : injective nodes.
Proof.
by move=> [c|[[|[|?]] ?]] [e|[[|[|?]] ?]] // _; congr (_ _); apply/val_inj; rewrite /= ?[c]ord1 ?[e]ord1.
Qed.
Lemma at_points_differ : injective at_points.
Proof. by move=> [[|[|[|[|?]]]] ?] [[|[|[|[|?]]]] ?] // _; apply/val_inj. Qed.
Lemma at_points_away (q : 'I_4) (c : one) : at_points q != node nodes c. Proof. by case: q => [[|[|[|[|?]]]] ?]. Qed.
Lemma values_enough : (#|{: 'I_4}| + #|one| = (most one two 2).+1)%N. Proof. by rewrite /most !card_ord. Qed.
Definition inputs_instance :=
  @false_proofs_pass_rarely one one two _ _ 2 (fun=> 3%:R) nodes at_points nodes_differ values_enough.
Definition honest_inputs_instance :=
  @honest_proofs_hold one one two _ _ 2 (fun=> 1) nodes at_points nodes_differ values_enough at_points_differ
    at_points_away.

(* And the game can be won honestly: an aggregator that has both submit, and gives the right sums, is believed. *)
Local Notation F := (field (fun _ : 'I_1 => 5%N) ord0).
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

(* Every sum that an analysis releases (protocols/fhe_auc_protocols/exact_auc) is in the range in which parties read it,
   so `verified` holds of all of them together: AUCs of models and groups, comparisons, sites. *)
From mathcomp Require Import all_ssreflect ssralg finalg zmodp poly ssrnum ssrint rat.
From Verified Require Import Chance Sums Authenticators Session Integers.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

(* P * N^2 for P + N rows. *)
Lemma two_thirds (p n : nat) : (27 * (p * n ^ 2) <= 4 * (p + n) ^ 3)%N.
Proof.
have key q : (27 * (q * n ^ 2) <= (q + 2 * n) ^ 3)%N.
  case/orP: (leq_total n q) => /subnKC <-; [set e := (q - n)%N | set e := (n - q)%N].
    by rewrite (_ : (n + e + 2 * n) ^ 3 = 27 * ((n + e) * n ^ 2) + (9 * n * e ^ 2 + e ^ 3))%N ?leq_addr //; ring.
  rewrite (_ : (q + 2 * (q + e)) ^ 3 = 27 * (q * (q + e) ^ 2) + (9 * q * e ^ 2 + 8 * e ^ 3))%N ?leq_addr //; ring.
have := key (2 * p)%N; rewrite -mulnDr expnMn (_ : 27 * (2 * p * n ^ 2) = 2 * (27 * (p * n ^ 2)))%N; last by ring.
by rewrite (_ : 2 ^ 3 * (p + n) ^ 3 = 2 * (4 * (p + n) ^ 3))%N ?leq_pmul2l //; ring.
Qed.

Lemma norm_add (x y : int) : `|x + y| <= `|x| + `|y|.
Proof. by have := ler_norm_sum (index_enum _) (fun b : bool => if b then x else y) xpredT; rewrite !big_bool. Qed.

Lemma square_of_sum (a b u v : int) : a * a * (u * u) + b * b * (v * v) + a * b * (2 * (u * v)) = (a * u + b * v) ^+ 2.
Proof.
rewrite expr2 [RHS]mulrDl [X in _ = X + _]mulrDr [X in _ = _ + X]mulrDr.
rewrite [a * u * (a * u)]mulrACA [a * u * (b * v)]mulrACA [b * v * (a * u)]mulrACA [b * v * (b * v)]mulrACA.
rewrite [b * a]mulrC [v * u]mulrC; have -> : 2 * (u * v) = u * v + u * v by rewrite -[RHS]mulr2n -[RHS]mulr_natl.
by rewrite [X in _ + X = _]mulrDr addrAC !addrA.
Qed.

Section Analysis.
Variables (Model Group Class : finType) (B C W scale : nat).    (* B bins, ascending; C merged, W coarse ones; S *)
Variable merge : 'I_B -> 'I_C.                                  (* neighbours, in the code; here any *)
Variables (first_model : Model) (everybody : Group) (positive negative : Class).

(** * Rows, and a party's sketch *)
(* In a comparison a row lies between the ends of a coarse bin, with a share of each, in parts of 1/S. *)
Record row := Row { of_class : Class; in_subgroup : Group -> bool; bin : Model -> 'I_B;
                    at_lower : Model -> 'I_W; upper_share : Model -> 'I_scale.+1 }.
Definition in_group (r : row) (g : Group) : bool := (g == everybody) || in_subgroup r g.
Definition lower (r : row) (m : Model) : 'I_W.+1 := widen_ord (leqnSn W) (at_lower r m).
Definition upper (r : row) (m : Model) : 'I_W.+1 := lift ord0 (at_lower r m).
Definition grid (merged : bool) : nat := if merged then C else B.
Definition place (v : bool) (r : row) (m : Model) : 'I_(grid v) :=
  if v return 'I_(grid v) then merge (bin r m) else bin r m.
Definition share (r : row) (m : Model) (j : 'I_W.+1) : nat :=
  (if j == lower r m then scale - upper_share r m else if j == upper r m then upper_share r m : nat else 0)%N.

(* Entries of a sketch: those that add up over rows, and those that a party says of itself. *)
Definition count_entry : finType := [the finType of (Model * Group * Class * {v : bool & 'I_(grid v)})%type].
Definition coarse_entry : finType := [the finType of ('I_4 * Model * Class * 'I_W.+1)%type].       (* "", x, xx, xy *)
Definition table_entry : finType := [the finType of (Model * Model * Class * 'I_W.+1 * 'I_W.+1)%type].
Definition own_entry : finType := [the finType of (Model * 'I_11)%type].                                 (* sites *)
Definition entry : finType := [the finType of (count_entry + coarse_entry + table_entry + own_entry)%type].
Definition count_of m g c v (k : 'I_(grid v)) : entry := inl (inl (inl (m, g, c, Tagged (fun v => 'I_(grid v)) k))).
Definition coarse_of (what : 'I_4) m c j : entry := inl (inl (inr (what, m, c, j))).
Definition table_of a b c j k : entry := inl (inr (a, b, c, j, k)).
Definition site_of m e : entry := inr (m, e).

Definition of_row (r : row) (j : count_entry + coarse_entry + table_entry) : nat :=
  match j with
  | inl (inl (m, g, c, k)) => [&& of_class r == c, in_group r g & place (tag k) r m == tagged k]
  | inl (inr (what, m, c, j)) => (of_class r == c) *
      nth 0 [:: (j == lower r m) : nat; share r m j; share r m j ^ 2;
                (j == lower r m) * ((scale - upper_share r m) * upper_share r m)] what
  | inr (a, b, c, j, k) => (of_class r == c) * (share r a j * share r b k)
  end%N.

(** * What is released *)
(* The form with so much weight on each of these entries. *)
Definition weighted (K : finType) (place : K -> entry) (weight : K -> int) : form entry :=
  fun j => \sum_(k | place k == j) weight k.

(* The AUC of a model's scores, telling rows of a group and of some classes from those of another. *)
Record contrast := Contrast { model : Model; side : bool -> Group * {set Class} }.  (* true: positives *)

Definition each (v : bool) (x : contrast) (b : bool) (k : 'I_(grid v)) : form entry :=
  weighted (fun c => @count_of (model x) (side x b).1 c v k) (fun c => (c \in (side x b).2)%:Z).
(* N_{<k} - N_{>k} for b = false; P_{>k} - P_{<k} is minus that for b = true, but it is squared. *)
Definition beside (v : bool) (x : contrast) (b : bool) (k : 'I_(grid v)) : form entry :=
  weighted (fun cl : Class * 'I_(grid v) => @count_of (model x) (side x b).1 cl.1 v cl.2)
    (fun cl => (cl.1 \in (side x b).2)%:Z * ((cl.2 < k)%N%:Z - (k < cl.2)%N%:Z)).

Definition label (b : bool) : Class := if b then positive else negative.
Definition coarse (what : 'I_4) (m : Model) (b : bool) (j : 'I_W.+1) : form entry :=
  weighted (fun _ : 'I_1 => coarse_of what m (label b) j) (fun=> 1).
Definition table (a a' : Model) (b : bool) (j k : 'I_W.+1) : form entry :=
  weighted (fun _ : 'I_1 => table_of a a' (label b) j k) (fun=> 1).
(* N_{<j} - N_{>=j} at coarse bin j for positives, or at j + 1; P_{>=j} - P_{<j} for negatives. *)
Definition worth (m : Model) (b : bool) (following : bool) (j : 'I_W.+1) : form entry :=
  weighted (fun l : 'I_W.+1 => coarse_of ord0 m (label (~~ b)) l)
    (fun l => (if b then 1 else -1) * ((l < j + following)%N%:Z - (j + following <= l)%N%:Z)).

Inductive released : Type :=                                    (* over merged bins for v = true *)
| Difference (v : bool) of contrast                             (* D *)
| Ties (v : bool) of contrast & {set 'I_(grid v)}               (* in some of the bins *)
| OneLabel (v : bool) of contrast & bool & {set 'I_(grid v)}    (* squares of the rows of positives, or negatives *)
| Squares (v : bool) of contrast & bool                         (* Q10 for true, Q01 for false *)
| Rows of Group & Class
| First of Model & bool                                         (* of a comparison: D10 or D01 of a model, *)
| Second of Model & bool                                        (* its Q10 or Q01, *)
| Mixed of Model & Model & bool                                 (* and the mixed one of two models *)
| Site of Model & 'I_11.

Definition sum_of (k : released) : msum entry :=
  match k with
  | Difference v x => [seq (1, [:: each x true k; beside x false k]) | k <- enum 'I_(grid v)]
  | Ties v x pick => [seq ((k \in pick)%:Z, [:: each x true k; each x false k]) | k <- enum 'I_(grid v)]
  | OneLabel v x b pick => [seq ((k \in pick)%:Z, [:: each x b k; each x b k]) | k <- enum 'I_(grid v)]
  | Squares v x b => [seq (1, [:: each x b k; beside x (~~ b) k; beside x (~~ b) k]) | k <- enum 'I_(grid v)]
  | Rows g c => [:: (1, [:: weighted (@count_of first_model g c false) (fun=> 1)])]
  | First m b => [seq (1, [:: coarse (inord 1) m b j; worth m b false j]) | j <- enum 'I_W.+1]
  | Second m b =>
      [seq (1, [:: coarse (inord 2) m b j; worth m b false j; worth m b false j]) | j <- enum 'I_W.+1] ++
      [seq (2, [:: coarse (inord 3) m b j; worth m b false j; worth m b true j]) | j <- enum 'I_W.+1]
  | Mixed a a' b =>
      [seq (1, [:: table a a' b jk.1 jk.2; worth a b false jk.1; worth a' b false jk.2])
      | jk <- enum [the finType of ('I_W.+1 * 'I_W.+1)%type]]
  | Site m e => [:: (1, [:: weighted (fun _ : 'I_1 => site_of m e) (fun=> 1)])]
  end.
Definition degree_of (k : released) : nat :=
  match k with
  | Rows _ _ | Site _ _ => 1 | Difference _ _ | Ties _ _ _ | OneLabel _ _ _ _ | First _ _ => 2
  | Squares _ _ _ | Second _ _ | Mixed _ _ _ => 3
  end.

Lemma degree_mapped (K : finType) (c : K -> int) (g : K -> seq (form entry)) (n : nat) :
  (forall k, size (g k) <= n)%N -> (degree [seq (c k, g k) | k <- enum K] <= n)%N.
Proof.
by move=> gn; rewrite /degree big_map; elim: (enum K) => [|k ks IH]; rewrite ?big_nil // big_cons geq_max gn.
Qed.

Lemma degreeE (k : released) : (degree (sum_of k) <= degree_of k)%N.
Proof.
case: k => [v x|v x pick|v x b pick|v x b|g c|m b|m b|a a' b|m e] /=; try by rewrite /degree big_seq1.
all: rewrite ?/degree ?big_cat ?geq_max -?/(degree _); try apply/andP; try split; exact: degree_mapped.
Qed.

Lemma difference_is_blinded (x : contrast) : (0 < B)%N -> (1 < degree (sum_of (Difference false x)))%N.
Proof.
move=> B0; rewrite /degree big_map big_enum; pose k0 : 'I_B := Ordinal B0.
by rewrite (bigD1 k0) //= leq_max.
Qed.

(** * What they are, of rows *)
Section Values.
Variables (rows : seq row) (z : entry -> int).
Hypothesis z_rows : forall j, z (inl j) = \sum_(r <- rows) (of_row r j)%:Z.

Lemma weighted_at (K : finType) (place : K -> entry) (weight : K -> int) :
  form_at (weighted place weight) z = \sum_k weight k * z (place k).
Proof.
rewrite /form_at (partition_big place xpredT) //=; apply: eq_bigr => j _.
rewrite intz /weighted mulr_suml; apply: eq_bigr => k /eqP -> //.
Qed.

Lemma value_mapped (K : finType) (c : K -> int) (g : K -> seq (form entry)) :
  value [seq (c k, g k) | k <- enum K] z = \sum_k c k * \prod_(l <- g k) form_at l z.
Proof. by rewrite /value big_map big_enum; apply: eq_bigr => k _; rewrite intz. Qed.

Definition cell (x : contrast) (b : bool) : pred row :=
  fun r => (of_class r \in (side x b).2) && in_group r (side x b).1.
Definition labelled (b : bool) : pred row := fun r => of_class r == label b.

(* What is summed over bins is summed over rows. *)
Lemma by_rows (K : finType) (h : row -> K -> int) (g : K -> int) :
  \sum_k (\sum_(r <- rows) h r k) * g k = \sum_(r <- rows) \sum_k h r k * g k.
Proof. by rewrite exchange_big /=; apply: eq_bigr => k _; rewrite mulr_suml. Qed.

Lemma each_at (v : bool) (x : contrast) (b : bool) (k : 'I_(grid v)) :
  form_at (each x b k) z = \sum_(r <- rows) (cell x b r && (place v r (model x) == k))%:Z.
Proof.
rewrite weighted_at; under eq_bigr do rewrite mulrC z_rows; rewrite by_rows; apply: eq_bigr => r _.
rewrite (bigD1 (of_class r)) //= eqxx /= big1 ?addr0 => [|c /negbTE]; last by rewrite eq_sym => ->; rewrite mul0r.
by rewrite /cell mulrC; case: (_ \in _); rewrite ?mul0r ?mul1r.
Qed.

Lemma beside_at (v : bool) (x : contrast) (b : bool) (k : 'I_(grid v)) :
  form_at (beside x b k) z
  = \sum_(r <- rows | cell x b r) ((place v r (model x) < k)%N%:Z - (k < place v r (model x))%N%:Z).
Proof.
rewrite weighted_at; under eq_bigr do rewrite mulrC z_rows; rewrite by_rows [RHS]big_mkcond; apply: eq_bigr => r _.
rewrite (bigD1 (of_class r, place v r (model x))) //= !eqxx /= big1 ?addr0 => [|[c l]]; last first.
  rewrite xpair_eqE /=; case: eqVneq => [->|_] /=; last by rewrite mul0r.
  by rewrite andbC => /negbTE; rewrite eq_sym => ->; rewrite mul0r.
by rewrite /cell; case: (_ \in _); case: (in_group _ _); rewrite ?mul0r ?mul1r.
Qed.

Lemma over_rows (v : bool) (x : contrast) (b : bool) (g : 'I_(grid v) -> int) :
  \sum_k form_at (each x b k) z * g k = \sum_(r <- rows | cell x b r) g (place v r (model x)).
Proof.
under eq_bigr do rewrite each_at; rewrite by_rows [RHS]big_mkcond; apply: eq_bigr => r _.
rewrite (bigD1 (place v r (model x))) //= eqxx andbT big1 ?addr0 => [|k /negbTE]; last first.
  by rewrite eq_sym => ->; rewrite andbF mul0r.
by case: (cell x b r); rewrite ?mul0r ?mul1r.
Qed.

Lemma bounded (a : pred row) (g : row -> int) (n : nat) :
  (forall r, a r -> `|g r| <= n%:Z) -> `|\sum_(r <- rows | a r) g r| <= (count a rows * n)%N%:Z.
Proof.
move=> gn; apply: le_trans (ler_norm_sum _ _ _) _; elim: (rows) => [|r rs IH]; rewrite ?big_nil // big_cons /=.
case: ifP => [/gn gr|_]; last by rewrite add0n.
by rewrite mulnDl mul1n PoszD -subr_ge0 opprD addrACA addr_ge0 // subr_ge0.
Qed.

Lemma beside_le (v : bool) (x : contrast) (b : bool) (k : 'I_(grid v)) : `|form_at (beside x b k) z| <= (count (cell x b) rows)%:Z.
Proof.
rewrite beside_at -[count _ _]muln1; apply: bounded => r _.
by case: ltngtP => _; rewrite ?subr0 ?sub0r ?subrr.
Qed.

Lemma rows_at (g : Group) (c : Class) :
  value (sum_of (Rows g c)) z = (count (fun r => (of_class r == c) && in_group r g) rows)%:Z.
Proof.
rewrite /value !big_seq1 mul1r weighted_at -sum1_count (big_morph Posz PoszD (erefl 0%:Z)) [RHS]big_mkcond /=.
under eq_bigr do rewrite mulrC z_rows; rewrite by_rows; apply: eq_bigr => r _.
rewrite (bigD1 (bin r first_model)) //= eqxx andbT big1 ?addr0 => [|k /negbTE]; last first.
  by rewrite eq_sym => ->; rewrite !andbF mul0r.
by rewrite mulr1; case: (_ && _).
Qed.

Lemma difference_at (v : bool) (x : contrast) :
  `|value (sum_of (Difference v x)) z| <= (count (cell x true) rows * count (cell x false) rows)%N%:Z.
Proof.
rewrite value_mapped; under eq_bigr do rewrite mul1r !big_cons big_nil mulr1.
by rewrite over_rows; apply: bounded => r _; apply: beside_le.
Qed.

(* Of the rows of each side in some of the bins. *)
Lemma picked_at (v : bool) (x : contrast) (b b' : bool) (pick : {set 'I_(grid v)}) :
  let n := \sum_k (k \in pick)%:Z * \prod_(l <- [:: each x b k; each x b' k]) form_at l z in
  0 <= n /\ `|n| <= (count (cell x b) rows * count (cell x b') rows)%N%:Z.
Proof.
have at_bin k : 0 <= (k \in pick)%:Z * form_at (each x b' k) z <= (count (cell x b') rows)%:Z.
  have /andP [le0 le1] : 0 <= form_at (each x b' k) z <= (count (cell x b') rows)%:Z.
    rewrite each_at sumr_ge0 //= -sum1_count (big_morph Posz PoszD (erefl 0%:Z)) [X in _ <= X]big_mkcond.
    by apply: ler_sum => r _; case: (cell _ _ _); case: (_ == _).
  by case: (k \in pick); rewrite ?mul1r ?mul0r ?le0 ?le1 //=.
rewrite /=; under eq_bigr do rewrite !big_cons big_nil mulr1 mulrCA; rewrite over_rows; split.
  by apply: sumr_ge0 => r _; have /andP [] := at_bin (place v r (model x)).
by apply: bounded => r _; have /andP [le0 le1] := at_bin (place v r (model x)); rewrite ger0_norm.
Qed.

Lemma squares_at (v : bool) (x : contrast) (b : bool) : let n := value (sum_of (Squares v x b)) z in
  0 <= n /\ `|n| <= (count (cell x b) rows * count (cell x (~~ b)) rows ^ 2)%N%:Z.
Proof.
rewrite /= value_mapped; under eq_bigr do rewrite mul1r !big_cons big_nil mulr1; rewrite over_rows; split.
  by apply: sumr_ge0 => r _; rewrite -expr2 sqr_ge0.
apply: bounded => r _; rewrite normrM -!abszE -PoszM lez_nat -mulnn.
by apply: leq_mul; rewrite -lez_nat abszE beside_le.
Qed.

(** ** Merged bins *)
(* A merged count, of those of its bins. *)
Definition neighbours (j : entry) : form entry :=
  match j with
  | inl (inl (inl (m, g, c, existT true k))) => weighted (@count_of m g c false) (fun i => (merge i == k)%:Z)
  | _ => fun=> 0
  end.
Definition is_merged (j : entry) : bool := if j is inl (inl (inl (_, _, _, k))) then tag k else false.

Lemma neighbours_at (j : entry) : is_merged j -> form_at (neighbours j) z = z j.
Proof.
case: j => // -[[[[[m g] c] [[] k]] //|//]|//] _; rewrite weighted_at z_rows.
under eq_bigr do rewrite mulrC z_rows; rewrite by_rows; apply: eq_bigr => r _ /=.
rewrite (bigD1 (bin r m)) //= eqxx andbT big1 ?addr0 => [|i /negbTE ir]; last first.
  by rewrite [_ == i]eq_sym ir !andbF mul0r.
by case: (_ == _); case: (in_group _ _); rewrite ?mul1r ?mul0r.
Qed.

(** ** Comparisons *)
(* What a row is worth, times S: between the ends of its coarse bin. *)
Definition worth_at (m : Model) (b : bool) (j : nat) : int :=
  \sum_(r <- rows | labelled (~~ b) r) (if b then 1 else -1) * ((lower r m < j)%N%:Z - (j <= lower r m)%N%:Z).
Definition row_worth (m : Model) (b : bool) (r : row) : int :=
  (scale - upper_share r m)%N%:Z * worth_at m b (lower r m) + (upper_share r m)%:Z * worth_at m b (upper r m).

Lemma worthE (m : Model) (b following : bool) (j : 'I_W.+1) :
  form_at (worth m b following j) z = worth_at m b (j + following).
Proof.
rewrite weighted_at; under eq_bigr do rewrite mulrC z_rows; rewrite by_rows /worth_at [RHS]big_mkcond.
apply: eq_bigr => r _; rewrite (bigD1 (lower r m)) //= eqxx /labelled big1 ?addr0 => [|l /negbTE ->]; last first.
  by rewrite muln0 mul0r.
by rewrite muln1; case: (_ == _); rewrite ?mul0r ?mul1r.
Qed.

Lemma worth_le (m : Model) (b : bool) (j : nat) : `|worth_at m b j| <= (count (labelled (~~ b)) rows)%:Z.
Proof.
rewrite -[count _ _]muln1; apply: bounded => r _; rewrite normrM (_ : `|if b then 1 else -1| = 1 :> int); last by
  case: b.
by case: leqP => _; rewrite mul1r ?subr0 ?sub0r.
Qed.

Lemma row_worth_le (m : Model) (b : bool) (r : row) :
  `|row_worth m b r| <= (scale * count (labelled (~~ b)) rows)%N%:Z.
Proof.
have -> : (scale * count (labelled (~~ b)) rows)%N%:Z = (scale - upper_share r m)%N%:Z * (count (labelled (~~ b))
  rows)%:Z
    + (upper_share r m)%:Z * (count (labelled (~~ b)) rows)%:Z.
  by rewrite -!PoszM -PoszD -mulnDl subnK // -ltnS ltn_ord.
apply: le_trans (norm_add _ _) _; rewrite !normrM -subr_ge0 opprD addrACA -!mulrBr.
by rewrite addr_ge0 // mulr_ge0 // subr_ge0 worth_le.
Qed.

(* A row has shares of the two ends of its coarse bin alone. *)
Lemma over_ends (m : Model) (r : row) (g : 'I_W.+1 -> int) (n : nat) : (0 < n)%N ->
  \sum_j (share r m j ^ n)%N%:Z * g j
  = ((scale - upper_share r m) ^ n)%N%:Z * g (lower r m) + (upper_share r m ^ n)%N%:Z * g (upper r m).
Proof.
move=> n0; have differ : upper r m != lower r m by rewrite -val_eqE /= /bump leq0n add1n (gtn_eqF (ltnSn _)).
rewrite (bigD1 (lower r m)) //= (bigD1 (upper r m)) //= big1 ?addr0 => [|j /andP [/negbTE jl /negbTE ju]]; last first.
  by rewrite /share jl ju exp0n // mul0r.
by rewrite /share !eqxx (negbTE differ).
Qed.

Lemma over_coarse (what : 'I_4) (m : Model) (b : bool) (g : 'I_W.+1 -> int) :
  \sum_j form_at (coarse what m b j) z * g j
  = \sum_(r <- rows | labelled b r) \sum_j (nth 0%N [:: (j == lower r m) : nat; share r m j; share r m j ^ 2;
      (j == lower r m) * ((scale - upper_share r m) * upper_share r m)] what)%N%:Z * g j.
Proof.
under eq_bigr do rewrite weighted_at big_ord1 mul1r z_rows.
rewrite by_rows [RHS]big_mkcond; apply: eq_bigr => r _; rewrite /labelled.
by case: ifP => [/eqP <-|/= ->]; [apply: eq_bigr => j _; rewrite /= eqxx mul1n | apply: big1 => j _; rewrite mul0n
  mul0r].
Qed.

Lemma first_at (m : Model) (b : bool) :
  value (sum_of (First m b)) z = \sum_(r <- rows | labelled b r) row_worth m b r.
Proof.
rewrite value_mapped; under eq_bigr do rewrite mul1r !big_cons big_nil mulr1.
rewrite over_coarse; apply: eq_bigr => r _; rewrite inordK //=.
under eq_bigr do rewrite -[share _ _ _]expn1; rewrite over_ends // !expn1 !worthE !addn0 //.
Qed.

Lemma second_at (m : Model) (b : bool) :
  value (sum_of (Second m b)) z = \sum_(r <- rows | labelled b r) row_worth m b r ^+ 2.
Proof.
rewrite /value big_cat /= -!/(value _ z) !value_mapped.
under eq_bigr do rewrite mul1r !big_cons big_nil mulr1.
under [X in _ + X]eq_bigr do rewrite !big_cons big_nil mulr1 [2 * _]mulrCA.
rewrite !over_coarse -big_split; apply: eq_bigr => r _; rewrite !inordK //= over_ends //.
rewrite (bigD1 (lower r m)) //= eqxx mul1n [X in _ + (_ + X)]big1 ?addr0 => [|j /negbTE ->]; last by rewrite mul0n
  mul0r.
rewrite !worthE !addn0 /row_worth -!mulnn !PoszM (_ : (lower r m + true)%N = upper r m) ?square_of_sum //.
by rewrite addn1.
Qed.

Lemma mixed_at (a a' : Model) (b : bool) :
  value (sum_of (Mixed a a' b)) z = \sum_(r <- rows | labelled b r) row_worth a b r * row_worth a' b r.
Proof.
rewrite value_mapped; under eq_bigr do rewrite mul1r !big_cons big_nil mulr1 weighted_at big_ord1 mul1r z_rows.
rewrite by_rows [RHS]big_mkcond; apply: eq_bigr => r _; rewrite /labelled.
case: ifP => [/eqP <-|no]; last by apply: big1 => jk _; rewrite /= no mul0n mul0r.
transitivity (\sum_j \sum_k (share r a j)%:Z * worth_at a b j * ((share r a' k)%:Z * worth_at a' b k)).
  by rewrite pair_bigA; apply: eq_bigr => -[j k] _; rewrite /= eqxx mul1n !worthE !addn0 PoszM mulrACA.
under eq_bigr do rewrite -mulr_sumr; rewrite -mulr_suml; congr (_ * _).
  by under eq_bigr do rewrite -[share _ _ _]expn1; rewrite (over_ends _ _ (fun j : 'I_W.+1 => worth_at a b j)) //
    !expn1.
by under eq_bigr do rewrite -[share _ _ _]expn1; rewrite (over_ends _ _ (fun j : 'I_W.+1 => worth_at a' b j)) // !expn1.
Qed.
End Values.

(** * The theorem *)
Section Verified_analysis.
Variables (I S P : finType) (t : P -> nat) (least m max_rows d : nat).  (* parties, sums, primes *)
Variables (rows_of : I -> seq row).

(* What a party says of itself. Weights of sites are cut off, and rounded. *)
Variables (own : I -> own_entry -> int) (site_scale : nat).
Hypothesis sites_cut_off : forall i s,
  `|own i s| <= (site_scale * maxn (size (rows_of i) ^ 2) (256 * size (rows_of i)))%N%:Z.

Definition sketch (ij : I * entry) : int :=
  match ij.2 with inl j => \sum_(r <- rows_of ij.1) (of_row r j)%:Z | inr j => own ij.1 j end.

(* A family of sums: any, if the rows of everybody are among them, and one AUC. Each is read around zero or from zero
   on (`lo`), and for max_rows rows needs a T above `room`: that of the primes modulo which it is released. *)
Variable kind : S -> released.
Variables (takes_sum : P -> pred S) (rows_of_class : Class -> S) (p0 : P) (s0 : S) (x0 : contrast).
Hypothesis rows_released : forall c, kind (rows_of_class c) = Rows everybody c.
Hypothesis auc_released : kind s0 = Difference false x0.
Hypothesis auc_of_p0 : takes_sum p0 s0.

(* A party's sketch modulo a prime has some of the entries; merged counts that it lacks are summed from others. *)
Variable sent : P -> pred entry.
Definition parts (p : P) (j : entry) (j' : {j' : entry | sent p j'}) : int :=
  if sent p j then (j == val j')%:Z else neighbours j (val j').
Definition there (p : P) (j : entry) : bool :=
  sent p j || is_merged j && [forall j', (neighbours j j' != 0) ==> sent p j'].
Hypothesis all_there : forall p s j, takes_sum p s -> weighs (sum_of (kind s)) j -> there p j.

Definition lo (P' : finType) (t' : P' -> nat) (k : released) : int :=
  match k with Ties _ _ _ | OneLabel _ _ _ _ | Squares _ _ _ | Rows _ _ => 0 | _ => around_zero t' end.
Definition most_pairs : nat := (max_rows ^ 2 %/ 4)%N.
Definition most_cubic : nat := (4 * max_rows ^ 3 %/ 27)%N.
Definition room (k : released) : nat :=
  match k with
  | Difference _ _ => 2 * most_pairs
  | Ties _ _ _ => most_pairs
  | OneLabel _ _ _ _ => max_rows ^ 2
  | Squares _ _ _ => most_cubic
  | Rows _ _ => #|I| * max_rows
  | First _ _ => 2 * (scale * most_pairs)
  | Second _ _ | Mixed _ _ _ => 2 * (scale ^ 2 * most_cubic)
  | Site _ _ => 2 * (site_scale * maxn (max_rows ^ 2) (256 * max_rows))
  end%N.
Definition apart (x : contrast) : bool := [disjoint (side x true).2 & (side x false).2].
Definition contrast_apart (k : released) : bool :=
  match k with Difference _ x | Ties _ x _ | Squares _ x _ => apart x | _ => true end.

(* Parties show numbers of rows; all others where these are of at most max_rows rows. *)
Definition shows (z : S -> int) (s : S) : bool :=
  match kind s with
  | Rows _ _ => true
  | _ => \sum_c z (rows_of_class c) <= max_rows%:Z
  end.

Hypotheses (t_prime : forall p, prime (t p)) (t_differ : injective t).
Hypotheses (t_least : forall p, (least <= t p)%N) (m_positive : (0 < m)%N) (B_positive : (0 < B)%N).
Hypotheses (d_most : forall s, (degree_of (kind s) <= d)%N) (d_small : (d < least)%N).
Hypothesis labels_differ : positive != negative.
Hypothesis all_apart : forall s, contrast_apart (kind s).
Hypothesis T_large : forall s, (room (kind s) < T (primes_of takes_sum t s))%N.
Hypothesis each_few : forall i, (size (rows_of i) <= max_rows)%N.       (* a party with more takes no part *)

Section Ranges.
Variable L : {set I}.
Let rows : seq row := flatten [seq rows_of i | i <- enum L].
Let z (j : entry) : int := \sum_(i in L) sketch (i, j).

Lemma over_parties (h : row -> int) : \sum_(i in L) \sum_(r <- rows_of i) h r = \sum_(r <- rows) h r.
Proof. by rewrite big_flatten big_map big_enum. Qed.

Lemma z_rows (j : count_entry + coarse_entry + table_entry) : z (inl j) = \sum_(r <- rows) (of_row r j)%:Z.
Proof. exact: over_parties. Qed.

Lemma size_rows : (size rows = \sum_(i in L) size (rows_of i))%N.
Proof. by rewrite size_flatten /shape -map_comp sumnE big_map big_enum. Qed.

Lemma most_rows : (size rows <= #|I| * max_rows)%N.
Proof.
rewrite size_rows; apply: leq_trans (leq_sum _ (fun i _ => each_few i)) _.
by rewrite sum_nat_const leq_mul2r max_card orbT.
Qed.

(* What is read modulo some of the primes. *)
Section Read.
Variables (P' : finType) (t' : P' -> nat).

Lemma around (v : int) (n : nat) : (2 * `|v| <= n)%N -> (n < T t')%N -> in_range t' (around_zero t') v.
Proof.
move=> vn nT; have T0 : (0 < T t')%N by apply: leq_ltn_trans nT.
apply: symmetric_range => //; rewrite -abszE lez_nat geq_half_double -ltnS prednK //.
by apply: leq_ltn_trans nT; rewrite -mul2n.
Qed.

Lemma number_of_rows (g : Group) (c : Class) :
  (room (Rows g c) < T t')%N -> in_range t' 0 (value (sum_of (Rows g c)) z).
Proof.
move=> roomT; rewrite (rows_at z_rows); apply: (@natural_range _ t' _ (size rows)) (leq_ltn_trans most_rows roomT) => //.
by rewrite lez_nat count_size.
Qed.

Lemma all_classes : \sum_c value (sum_of (Rows everybody c)) z = (size rows)%:Z.
Proof.
under eq_bigr do rewrite (rows_at z_rows) -sum1_count (big_morph Posz PoszD (erefl 0%:Z)) big_mkcond.
rewrite exchange_big -sum1_size (big_morph Posz PoszD (erefl 0%:Z)) /=.
apply: eq_bigr => r _; rewrite (bigD1 (of_class r)) //= /in_group !eqxx big1 ?addr0 // => c /negbTE.
by rewrite eq_sym => ->.
Qed.

Section Few.
Hypothesis few : (size rows <= max_rows)%N.

Lemma disjoint_rows (a b : pred row) : (forall r, a r -> b r -> false) -> (count a rows + count b rows <= max_rows)%N.
Proof.
move=> ab; rewrite -count_predUI [X in (_ + X)%N](_ : _ = 0)%N ?addn0; first exact: leq_trans (count_size _ _) few.
by rewrite (@eq_count _ _ pred0) ?count_pred0 // => r; apply/negbTE/negP => /andP [ar br]; have := ab r ar br.
Qed.

Lemma sides (x : contrast) : apart x -> (count (cell x true) rows + count (cell x false) rows <= max_rows)%N.
Proof.
by move=> /disjointFr there; apply: disjoint_rows => r /andP [/there out _] /andP []; rewrite out.
Qed.

Lemma sides_labelled (b : bool) : (count (labelled b) rows + count (labelled (~~ b)) rows <= max_rows)%N.
Proof.
apply: disjoint_rows => r; rewrite /labelled /label => /eqP ->; have := labels_differ; case: b => differ /eqP same.
  by rewrite same eqxx in differ.
by rewrite -same eqxx in differ.
Qed.

Lemma pairs (p n : nat) : (p + n <= max_rows)%N -> (p * n <= most_pairs)%N.
Proof.
move=> pn; rewrite leq_divRL // mulnC.
by apply: leq_trans (nat_AGM2 p n).1 _; rewrite leq_exp2r.
Qed.

Lemma cubes (p n : nat) : (p + n <= max_rows)%N -> (p * n ^ 2 <= most_cubic)%N.
Proof.
move=> pn; rewrite leq_divRL // mulnC; apply: leq_trans (two_thirds p n) _.
by rewrite leq_pmul2l // leq_exp2r.
Qed.

Lemma scaled_cubes (b : bool) :
  (count (labelled b) rows * (scale * count (labelled (~~ b)) rows) ^ 2 <= scale ^ 2 * most_cubic)%N.
Proof. by rewrite expnMn mulnCA leq_mul2l cubes ?orbT // sides_labelled. Qed.

(** ** Sites *)
Lemma site_in_range (n : Model) (e : 'I_11) : (room (Site n e) < T t')%N ->
  in_range t' (lo t' (Site n e)) (value (sum_of (Site n e)) z).
Proof.
apply: around; rewrite /value !big_seq1 mul1r weighted_at big_ord1 mul1r /room leq_pmul2l // -lez_nat abszE.
apply: le_trans (ler_norm_sum _ _ _) _.
apply: (@le_trans _ _ (\sum_(i in L) (site_scale * maxn (size (rows_of i) ^ 2) (256 * size (rows_of i)))%N%:Z)).
  by apply: ler_sum => i _; apply: sites_cut_off.
rewrite -(big_morph Posz PoszD (erefl 0%:Z)) lez_nat -big_distrr leq_mul2l; apply/orP; right.
have [max0|max0] := posnP max_rows.
  rewrite big1 // => i iL; have : (size (rows_of i) <= 0)%N.
    by rewrite -max0; apply: leq_trans few; rewrite size_rows (bigD1 i) //= leq_addr.
  by rewrite leqn0 => /eqP ->.
apply: (@leq_trans (\sum_(i in L) size (rows_of i) * maxn max_rows 256)%N).
  apply: leq_sum => i iL; have one : (size (rows_of i) <= max_rows)%N.
    by apply: leq_trans few; rewrite size_rows (bigD1 i) //= leq_addr.
  rewrite geq_max -mulnn leq_mul2l mulnC leq_mul2l !leq_max one leqnn !orbT //.
rewrite -big_distrl /= -size_rows (@leq_trans (max_rows * maxn max_rows 256)) ?leq_mul2r ?few ?orbT //.
by rewrite maxnMr mulnn [(max_rows * 256)%N]mulnC.
Qed.

Lemma few_in_range (k : released) : contrast_apart k -> (room k < T t')%N -> in_range t' (lo t' k) (value (sum_of k) z).
Proof.
have twice (a b : nat) (v : int) : `|v| <= a%:Z -> (a <= b)%N -> (2 * `|v| <= 2 * b)%N.
  by move=> va ab; rewrite leq_pmul2l // -lez_nat abszE; apply: le_trans va _.
case: k => [v x|v x pick|v x b pick|v x b|g c|n b|n b|a a' b|n e] kapart kroom.
- by apply: around kroom; apply: twice (difference_at z_rows v x) (pairs (sides kapart)).
- have [v0 vn] := picked_at z_rows x true false pick; rewrite /sum_of value_mapped.
  by apply: natural_range v0 vn _; apply: leq_ltn_trans kroom; apply: pairs (sides kapart).
- have [v0 vn] := picked_at z_rows x b b pick; rewrite /sum_of value_mapped.
  apply: natural_range v0 vn _; apply: leq_ltn_trans kroom; rewrite mulnn leq_exp2r //.
  exact: leq_trans (count_size _ _) few.
- have [v0 vn] := squares_at z_rows v x b; apply: natural_range v0 vn _; apply: leq_ltn_trans kroom.
  by apply: cubes; have := sides kapart; case: (b); rewrite // addnC.
- exact: number_of_rows.
- apply: around kroom; rewrite (first_at z_rows).
  apply: (twice (count (labelled b) rows * (scale * count (labelled (~~ b)) rows))%N).
    by apply: bounded => r _; apply: row_worth_le.
  by rewrite mulnCA leq_mul2l pairs ?orbT // sides_labelled.
- apply: around kroom; rewrite (second_at z_rows); apply: twice (scaled_cubes b).
  apply: bounded => r _; rewrite expr2 normrM -!abszE -PoszM lez_nat -mulnn.
  by apply: leq_mul; rewrite -lez_nat abszE row_worth_le.
- apply: around kroom; rewrite (mixed_at z_rows); apply: twice (scaled_cubes b).
  apply: bounded => r _; rewrite normrM -!abszE -PoszM lez_nat -mulnn.
  by apply: leq_mul; rewrite -lez_nat abszE row_worth_le.
- exact: site_in_range.
Qed.
End Few.
End Read.

Definition exact_sum (s : S) : int := value (sum_of (kind s)) z.
Local Notation lo_of := (fun s => lo (primes_of takes_sum t s) (kind s)).

Lemma analysis_ranges (all := fun _ : {set I} => exact_sum) (s : S) : ranged takes_sum t lo_of all L s \/
  (forall z' : S -> int, (forall s', ranged takes_sum t lo_of all L s' -> z' s' = all L s') -> ~~ shows z' s).
Proof.
have [few|many] := leqP (size rows) max_rows; first by left; apply: few_in_range.
have rowsE (z' : S -> int) : (forall s', ranged takes_sum t lo_of all L s' -> z' s' = all L s') ->
    \sum_c z' (rows_of_class c) = (size rows)%:Z.
  move=> shown; rewrite -all_classes; apply: eq_bigr => c _; rewrite shown /ranged /all /exact_sum ?rows_released //.
  by have := T_large (rows_of_class c); rewrite rows_released; apply: number_of_rows.
have hidden k : k = kind s -> ~~ (if k is Rows _ _ then true else false) -> forall z' : S -> int,
    (forall s', ranged takes_sum t lo_of all L s' -> z' s' = all L s') -> ~~ shows z' s.
  move=> ks not_rows z' /rowsE total; rewrite /shows -ks; case: k ks not_rows => //= *;
  by rewrite total lez_nat -ltnNge many.
case ks : (kind s) => [v x|v x pick|v x b pick|v x b|g c|n b|n b|a a' b|n e];
  try by right; apply: (hidden (kind s)); rewrite ?ks.
by left; have := T_large s; rewrite /ranged /all /exact_sum ks; apply: number_of_rows.
Qed.

(* What a prime's sketches add up to is what the whole ones do. *)
Lemma of_sent (p : P) (g : entry -> int) :
  \sum_(j : {j : entry | sent p j}) g (val j) = \sum_(j | sent p j) g j.
Proof.
rewrite (partition_big val (sent p)) => [|j _]; last exact: valP.
apply: eq_bigr => j jp; rewrite (big_pred1 (Sub j jp)) // => j'; exact: val_eqE.
Qed.

Lemma all_made (p : P) (j : entry) : there p j -> made (@parts p) (fun j' => z (val j')) j = z j.
Proof.
move=> jthere; pose part j' := if sent p j then (j == j')%:Z else neighbours j j'.
transitivity (\sum_(j' | sent p j') part j' * z j').
  by rewrite -(of_sent p (fun j' => part j' * z j')); apply: eq_bigr => j' _; rewrite intz.
rewrite /part {part}; move: jthere; rewrite /there; have [jp _|/negbTE jp /=] := boolP (sent p j).
  rewrite (bigD1 j) //= eqxx mul1r big1 ?addr0 // => j' /andP [_ /negbTE]; by rewrite eq_sym => ->; rewrite mul0r.
case/andP => merged /forallP near.
rewrite -(neighbours_at z_rows merged) /form_at [RHS](bigID (sent p)) /=.
rewrite [X in _ = _ + X]big1 ?addr0 => [|j' /negbTE away]; first by apply: eq_bigr => j' _; rewrite intz.
by have := near j'; rewrite away implybF negbK => /eqP ->; rewrite mul0r.
Qed.
End Ranges.

Definition exact_sums (L : {set I}) (s : S) : int := value (sum_of (kind s)) (fun j => \sum_(i in L) sketch (i, j)).
Definition sums_at (p : P) : finType := [the finType of {s : S | takes_sum p s}].
Definition entries_at (p : P) : finType := [the finType of {j : entry | sent p j}].
Definition released_at (p : P) (s : sums_at p) : msum (entries_at p) := of_parts (@parts p) (sum_of (kind (val s))).
Definition sketch_at (p : P) (ij : I * entries_at p) : int := sketch (ij.1, val ij.2).

(* An aggregator knows all sketches, and sees all that has been sent, and every verdict, before its next turn. *)
Variable aggregator : secrets I released_at (field t) -> seq bool -> I + result I sums_at (field t).

Theorem verified_analysis (turns : nat) :
  Pr [pred ax : points (field t) * secrets I released_at (field t) |
       deceived m (fun s => lo (primes_of takes_sum t s) (kind s)) shows sketch_at exact_sums aggregator turns ax.1 ax.2]
    <= (#|I| %/ m * d)%:R / least.-1%:R.
Proof.
apply: (@verified _ _ _ _ _ _ _ _ _ _ _ _ _ _ t_prime t_differ t_least m_positive _ d_small p0 (Sub s0 auc_of_p0)).
- by move=> p s; rewrite degree_of_parts; apply: leq_trans (degreeE _) (d_most _).
- by rewrite degree_of_parts /= auc_released difference_is_blinded.
- move=> p s L; rewrite value_of_parts; apply: eq_taken => j; move/(all_there (valP s)); exact: all_made.
- exact: analysis_ranges.
Qed.
End Verified_analysis.
End Analysis.

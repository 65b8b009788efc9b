(* The counting core of the proofs that parties' numbers are counts within their caps (fhe_auc/input_proofs): how often a
   false statement passes, where nobody has chosen what is random; and that true equations hold for integers. *)
From mathcomp Require Import all_ssreflect ssralg finalg zmodp poly ssrnum ssrint rat.
From Verified Require Import Chance Sums Forms Authenticators Integers Vectors.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

(** * Tries that differ *)
Section Distinct.
Variables (N T : finType) (E : N -> pred T) (most : nat).       (* tries, what each is one of, what passes *)
Local Notation spare := (#|T|.+1 - #|N|)%N.                     (* left for the last one *)
Definition passing (A : {set N}) : pred {ffun N -> T} := fun z => injectiveb z && [forall i in A, E i (z i)].

Lemma one_more_passes (A : {set N}) (i : N) : i \notin A -> (#|E i| <= most)%N ->
  (#|passing (i |: A)| * spare <= most * #|passing A|)%N.
Proof.
move=> iA few.
pose others (z : {ffun N -> T}) : {ffun N -> option T} := [ffun k => if k == i then None else Some (z k)].
have same_others z z' : others z = others z' -> forall k, k != i -> z k = z' k.
  by move=> /ffunP same k /negbTE ki; have := same k; rewrite !ffunE ki => -[].
have apart (P : pred {ffun N -> T}) : (#|P| = \sum_v #|[pred z | P z && (others z == v)]|)%N.
  by rewrite -sum1_card (partition_big others xpredT) //=; apply: eq_bigr => v _; rewrite sum1_card.
rewrite (apart (passing _)) (apart (passing A)) big_distrl big_distrr /=; apply: leq_sum => v _.
case: (pickP [pred z | passing A z && (others z == v)]) => [z0|none]; last first.
  rewrite [X in (X * _)%N]eq_card0 ?mul0n // => z; rewrite inE; apply/negbTE; apply: contraFN (none z).
  move=> /andP [/andP [inj all_hold] zv]; rewrite /= zv andbT /passing /= inj; apply/forall_inP => k kA.
  by apply: (forall_inP all_hold); rewrite inE kA orbT.
move=> /andP [/andP [/injectiveP inj /forall_inP hold] /eqP z0v]; apply: leq_mul.
  apply: leq_trans few; rewrite -(card_in_image (f := fun z : {ffun N -> T} => z i)).
    apply/subset_leq_card/subsetP => y /imageP [z /andP [/andP [_ /forall_inP hold_z] _] ->].
    by apply: hold_z; rewrite setU11.
  move=> z z' /andP [_ /eqP zv] /andP [_ /eqP zv'] at_i; apply/ffunP => k.
  by have [->|ki] := eqVneq k i; last by apply: same_others ki; rewrite zv zv'.
pose with_i y : {ffun N -> T} := [ffun k => if k == i then y else z0 k].
rewrite (leq_trans _ (_ : #|with_i @: ~: (z0 @: [set~ i])| <= _)%N) //.
  rewrite card_imset => [|y y' /ffunP/(_ i)]; last by rewrite !ffunE eqxx.
  have N0 : (0 < #|N|)%N by apply/card_gt0P; exists i.
  by rewrite cardsCs setCK card_imset // cardsC1 -{1}(prednK N0) subSS.
apply/subset_leq_card/subsetP => z /imsetP [y]; rewrite inE => new ->.
have away k : k != i -> y != z0 k.
  by move=> ki; apply: contra new => /eqP ->; rewrite imset_f // !inE.
rewrite inE; apply/andP; split; last first.
  by apply/eqP; rewrite -z0v; apply/ffunP => k; rewrite !ffunE; case: eqP.
apply/andP; split; last first.
  apply/forall_inP => k kA; rewrite ffunE ifN ?hold //.
  by apply: contraNneq iA => <-.
apply/injectiveP => k l; rewrite !ffunE; have [->|ki] := eqVneq k i; have [->|li] := eqVneq l i => //.
- by move=> /eqP; rewrite (negbTE (away _ li)).
- by move=> /eqP; rewrite eq_sym (negbTE (away _ ki)).
exact: inj.
Qed.

Lemma distinct_tries (A : {set N}) : (forall i, i \in A -> #|E i| <= most)%N ->
  Pr [pred z : {z : {ffun N -> T} | injectiveb z} | [forall i in A, E i (val z i)]] <= (most%:R / spare%:R) ^+ #|A|.
Proof.
have count n (B : {set N}) : #|B| = n -> (forall i, i \in B -> #|E i| <= most)%N ->
    (#|passing B| * spare ^ n <= most ^ n * #|passing set0|)%N.
  elim: n B => [|n IH] B Bn few.
    by rewrite (cards0_eq Bn) muln1 mul1n.
  have [i iB] : exists i, i \in B by apply/card_gt0P; rewrite Bn.
  have {IH} := IH (B :\ i) _ _; move: Bn; rewrite (cardsD1 i) iB => -[->] /(_ erefl) IH.
  rewrite -(setD1K iB) expnS mulnA.
  apply: leq_trans (leq_mul (one_more_passes _ (few i iB)) (leqnn _)) _; first by rewrite !inE eqxx.
  rewrite -mulnA expnS -mulnA leq_mul2l IH ?orbT // => k; by rewrite inE => /andP [_] /few.
move=> /(count _ A (erefl _)) {}count.
have [room|none] := ltnP #|T| #|N|.
  rewrite /Pr (_ : #|{: {z : {ffun N -> T} | injectiveb z}}| = 0%N) ?invr0 ?mulr0 ?exprn_ge0 ?divr_ge0 ?ler0n //.
  rewrite card_sig; apply: eq_card0 => z; rewrite !inE; apply: contraTF room => /injectiveP inj.
  by rewrite -leqNgt -(card_codom inj) max_card.
rewrite expr_div_n -!natrX; apply: Pr_bound; first by rewrite expn_gt0 subn_gt0 ltnS none.
rewrite -(card_image val_inj) card_sig.
rewrite (_ : #|[pred z : {ffun N -> T} | injectiveb z]| = #|passing set0|).
  apply: leq_trans count; rewrite leq_mul2r; apply/orP; right; apply/subset_leq_card/subsetP => z.
  by move=> /imageP [[z' inj] /= hold ->]; rewrite /= /passing -topredE /= inj.
apply: eq_card => z; rewrite -!topredE /= /passing; case: injectiveb => //=.
by apply/esym/forall_inP => i; rewrite inE.
Qed.
End Distinct.

(** * Polynomials through given values at given points *)
Section Interpolation.
Variables (K : finType) (F : fieldType) (point : K -> F).
Hypothesis point_injective : injective point.

Lemma too_many_roots (p : {poly F}) : (size p <= #|K|)%N -> (forall k, p.[point k] = 0) -> p = 0.
Proof.
move=> small zero; apply: (roots_geq_poly_eq0 (rs := map point (enum K))); last by rewrite size_map -cardE.
  by apply/allP => a /mapP [k _ ->]; apply/eqP.
by rewrite map_inj_uniq ?enum_uniq.
Qed.

Definition through (k : K) : {poly F} := \prod_(l | l != k) ((point k - point l)^-1 *: ('X - (point l)%:P)).
Definition interpolated (v : K -> F) : {poly F} := \sum_k v k *: through k.

Lemma interpolated_at (v : K -> F) (k : K) : (interpolated v).[point k] = v k.
Proof.
have at_point l : (through l).[point k] = (l == k)%:R.
  rewrite /through horner_prod; have [<-|lk] := eqVneq l k.
    rewrite big1 // => i il; rewrite hornerZ hornerXsubC mulVf // subr_eq0.
    by apply: contra il => /eqP/point_injective ->.
  by rewrite (bigD1 k) 1?eq_sym //= hornerZ hornerXsubC subrr mulr0 mul0r.
rewrite horner_sum (bigD1 k) //= hornerZ at_point eqxx mulr1.
by rewrite big1 ?addr0 // => l lk; rewrite hornerZ at_point (negbTE lk) mulr0.
Qed.

Lemma interpolated_size (v : K -> F) : (size (interpolated v) <= #|K|)%N.
Proof.
apply: leq_trans (size_sum _ _ _) _; apply/bigmax_leqP => k _; apply: leq_trans (size_scale_leq _ _) _.
have others : (#|[pred l | l != k]|.+1 = #|K|)%N.
  by rewrite cardC1 prednK //; apply/card_gt0P; exists k.
apply: leq_trans (size_prod_leq _ _) _; rewrite leq_subLR -others addnS ltnS.
apply: (@leq_trans (\sum_(l | l != k) 2)%N).
  by apply: leq_sum => l _; apply: leq_trans (size_scale_leq _ _) _; rewrite size_XsubC.
by rewrite sum_nat_const muln2 addnn.
Qed.
End Interpolation.

Section Digits.
(* Calls, digits of a call, proofs, residues, the base; and points at which a proof has a quotient's values. *)
Variables (C J N Q : finType) (F : finFieldType) (b : nat).
Variable x : C * J -> F.                                        (* what was submitted as digits *)

Definition is_digit (a : F) : bool := [exists v : 'I_b, a == v%:R].
Definition vanishing (a : F) : F := \prod_(v < b) (a - v%:R).

Lemma vanishing0 (a : F) : (vanishing a == 0) = is_digit a.
Proof.
rewrite /vanishing prodf_seq_eq0; apply/hasP/existsP => [[v _ /= /eqP av]|[v /eqP ->]].
  by exists v; rewrite -subr_eq0 av.
by exists v; rewrite ?mem_index_enum //= subrr.
Qed.

(** ** The joint randomness: a weight for each place of a call in each of the proofs *)
Local Notation joint := (weights J N F).
Definition in_call (r : joint) (i : N) (c : C) : F := form_of r (fun j => vanishing (x (c, j))) i.
Definition lucky (r : joint) (i : N) : bool := [forall c, in_call r i c == 0].

(* All of these proofs can pass though some digit is none. *)
Theorem few_weights_are_lucky (A : {set N}) : ~~ [forall cj, is_digit (x cj)] ->
  Pr [pred r : joint | [forall i in A, lucky r i]] <= 1 / (#|F| ^ #|A|)%:R.
Proof.
move=> /forallPn [[c j] none]; have e0 : vanishing (x (c, j)) != 0 by rewrite vanishing0.
pose values j := vanishing (x (c, j)).
apply: le_trans (Pr_le _) (@random_forms _ N F A values (fun=> 0) j e0) => r /forall_inP all_lucky.
by apply/forall_inP => i /all_lucky /forallP /(_ c).
Qed.

(** ** A proof: seeds, which all proofs share, and of each a quotient *)
(* Polynomials go through the digits in the calls, and through seeds at as many points more as there are proofs. *)
Variables (point : C + N -> F) (at_points : Q -> F).
Hypothesis point_injective : injective point.
Definition node (c : C) : F := point (inl c).
Definition seeds : finType := [the finType of {ffun J * N -> F}].
Definition wire (s : seeds) (j : J) : {poly F} :=
  interpolated point (fun k => match k with inl c => x (c, j) | inr m => s (j, m) end).
Definition zero_in_calls : {poly F} := \prod_c ('X - (node c)%:P).
Definition gadget (a : {poly F}) : {poly F} := \prod_(v < b) (a - v%:R%:P).
Definition of_wires (r : joint) (s : seeds) (i : N) : {poly F} := \sum_j r (i, j) *: gadget (wire s j).
Record proof := Proof { own_seeds : seeds; quotients : N -> Q -> F }.
Definition quotient (p : proof) (i : N) : {poly F} := interpolated at_points (quotients p i).

(* At the query point the wires' polynomial is what its quotient says. *)
Definition decided (weights_of wires : J -> F) (z quotient_at : F) : bool :=
  \sum_j weights_of j * vanishing (wires j) == zero_in_calls.[z] * quotient_at.
Definition holds (r : joint) (p : proof) (i : N) (z : F) : bool :=
  decided (fun j => r (i, j)) (fun j => (wire (own_seeds p) j).[z]) z (quotient p i).[z].

Lemma of_wires_at (r : joint) (s : seeds) (i : N) (z : F) :
  (of_wires r s i).[z] = \sum_j r (i, j) * vanishing (wire s j).[z].
Proof.
rewrite horner_sum; apply: eq_bigr => j _; rewrite hornerZ horner_prod; congr (_ * _).
by apply: eq_bigr => v _; rewrite hornerD hornerN hornerC.
Qed.

Lemma of_wires_in_call (r : joint) (s : seeds) (i : N) (c : C) : (of_wires r s i).[node c] = in_call r i c.
Proof. by rewrite of_wires_at; apply: eq_bigr => j _; rewrite interpolated_at. Qed.

Lemma zero_in_calls_at (z : F) : (zero_in_calls.[z] == 0) = [exists c, z == node c].
Proof.
rewrite horner_prod prodf_seq_eq0; apply/hasP/existsP => -[c].
  by rewrite /= hornerXsubC subr_eq0 => _ zc; exists c.
by move=> zc; exists c; rewrite ?mem_index_enum //= hornerXsubC subr_eq0.
Qed.

Definition most : nat := (b * (#|C| + #|N|).-1)%N.              (* the degree of what is in the wires *)
Hypothesis degree_left : (#|Q| + #|C| = most.+1)%N.            (* so many values make the quotient *)

Lemma size_times (p q : {poly F}) (n k : nat) : (size p <= n.+1 -> size q <= k.+1 -> size (p * q)%R <= (n + k).+1)%N.
Proof.
move=> pn qk; apply: leq_trans (size_mul_leq _ _) _; rewrite -ltnS.
by case: (size p + size q)%N (leq_add pn qk) => // s; rewrite addSn addnS ltnS.
Qed.

Lemma size_difference (r : joint) (s : seeds) (i : N) (q : {poly F}) : (size q <= #|Q|)%N ->
  (size (of_wires r s i - zero_in_calls * q)%R <= most.+1)%N.
Proof.
move=> small; apply: size_plus; last first.
  rewrite size_opp; have [->|q0] := eqVneq q 0; first by rewrite mulr0 size_poly0.
  have Q0 : (0 < #|Q|)%N by apply: leq_trans small; rewrite size_poly_gt0.
  rewrite -degree_left -(prednK Q0) addSn addnC; apply: size_times; last by rewrite prednK.
  by rewrite /zero_in_calls -big_enum size_prod_XsubC -cardE.
apply: leq_trans (size_sum _ _ _) _; apply/bigmax_leqP => j _; apply: leq_trans (size_scale_leq _ _) _.
rewrite /gadget /most; elim: b => [|n IH]; first by rewrite big_ord0 size_poly1.
rewrite big_ord_recr /= mulSn addnC; apply: size_times => //; apply: size_plus.
  apply: leq_trans (interpolated_size _ _) _; rewrite card_sum; exact: leqSpred.
by rewrite size_opp (leq_trans (size_polyC_leq1 _)).
Qed.

(** ** False proofs are found *)
(* Query points are drawn among these, and no two are the same. *)
Variable away : {set F}.
Local Notation query := {z | z \in away}.
Local Notation queries := {z : {ffun N -> query} | injectiveb z}.

(* Without luck in its weights, a proof passes at few points: the party chooses it when it knows all weights. *)
Lemma false_proof_passes_at_few_points (r : joint) (p : proof) (i : N) : ~~ lucky r i ->
  (#|[pred z : query | holds r p i (val z)]| <= most)%N.
Proof.
move=> /forallPn [c unlucky].
have differ : of_wires r (own_seeds p) i - zero_in_calls * quotient p i != 0.
  apply: contra unlucky; rewrite subr_eq0 => /eqP same; rewrite -(of_wires_in_call r (own_seeds p)) same hornerM.
  by rewrite mulf_eq0 zero_in_calls_at; apply/orP; left; apply/existsP; exists c.
apply: leq_trans (few_roots_among _ (n := most) differ (size_difference _ _ _ _)); last exact: interpolated_size.
by apply/subset_leq_card/subsetP => z; rewrite !inE /holds /decided -of_wires_at /root hornerD hornerN hornerM subr_eq0.
Qed.

(* Of several, each looked at at a point of its own, all without luck have to pass. *)
Theorem false_proofs_pass_rarely (r : joint) (p : proof) :
  Pr [pred z : queries | [forall i, holds r p i (val (val z i))]]
    <= (most%:R / (#|away|.+1 - #|N|)%:R) ^+ #|[set i | ~~ lucky r i]|.
Proof.
have few i : i \in [set i | ~~ lucky r i] -> (#|[pred z : query | holds r p i (val z)]| <= most)%N.
  by rewrite inE; apply: false_proof_passes_at_few_points.
rewrite -[#|away|]card_sig; apply: le_trans (Pr_le _) (distinct_tries few) => z /forallP all_hold.
by apply/forall_inP => i _; apply: all_hold.
Qed.

(** ** Honest proofs hold *)
Hypothesis at_points_injective : injective at_points.
Hypothesis at_points_away : forall q c, at_points q != node c.
Definition honest (r : joint) (s : seeds) : proof :=
  Proof s (fun i q => (of_wires r s i).[at_points q] / zero_in_calls.[at_points q]).

Lemma honest_quotient (r : joint) (s : seeds) (i : N) : (forall cj, is_digit (x cj)) ->
  of_wires r s i = zero_in_calls * quotient (honest r s) i.
Proof.
move=> digits; apply/eqP; rewrite -subr_eq0; apply/eqP.
pose all_points (k : Q + C) := match k with inl q => at_points q | inr c => node c end.
apply: (@too_many_roots _ _ all_points); first move=> [q|c] [q'|c'] /=.
- by move=> /at_points_injective ->.
- by move=> /eqP; rewrite (negbTE (at_points_away _ _)).
- by move=> /eqP; rewrite eq_sym (negbTE (at_points_away _ _)).
- by move=> /point_injective [->].
- rewrite card_sum degree_left; apply: size_difference; exact: interpolated_size.
move=> [q|c]; rewrite /= hornerD hornerN hornerM.
  rewrite interpolated_at //= mulrCA divff ?mulr1 ?subrr //.
  by rewrite zero_in_calls_at; apply/existsP => -[c]; apply/negP.
have /eqP -> : zero_in_calls.[node c] == 0 by rewrite zero_in_calls_at; apply/existsP; exists c.
rewrite mul0r subr0 of_wires_in_call; apply: form_of0 => j.
by apply/eqP; rewrite vanishing0.
Qed.

Theorem honest_proofs_hold (r : joint) (s : seeds) (i : N) (z : F) : (forall cj, is_digit (x cj)) ->
  holds r (honest r s) i z.
Proof. by move=> digits; rewrite /holds /decided -of_wires_at honest_quotient // hornerM. Qed.

(** ** What is answered about honest proofs tells nothing of the digits *)
Definition opened (z : N -> F) (s : seeds) : seeds := [ffun jm => (wire s jm.1).[z jm.2]].

(* At distinct points outside the calls the wires' values are as uniform as the seeds, whatever the digits are. *)
Theorem opened_wires_are_uniform (z : N -> F) (distinct : injective z) (outside_calls : forall m c, z m != node c) :
  bijective (opened z).
Proof.
apply: injF_bij => s s' /ffunP same; apply/ffunP => -[j m].
have at_m (t : seeds) : t (j, m) = (wire t j).[point (inr m)] by rewrite interpolated_at.
rewrite !at_m; congr (_.[_]); apply/eqP; rewrite -subr_eq0; apply/eqP.
pose all_points (k : C + N) := match k with inl c => node c | inr m => z m end.
apply: (@too_many_roots _ _ all_points); first move=> [c|k] [c'|k'] /=.
- by move=> /point_injective [->].
- by move=> /eqP; rewrite eq_sym (negbTE (outside_calls _ _)).
- by move=> /eqP; rewrite (negbTE (outside_calls _ _)).
- by move=> /distinct ->.
- by apply: size_plus; rewrite ?size_opp interpolated_size.
move=> [c|k]; rewrite /= hornerD hornerN ?interpolated_at ?subrr //.
by have := same (j, k); rewrite !ffunE /= => ->; rewrite subrr.
Qed.

(* So whatever either server does with them, as to send other answers and hear the verdict: for all digits alike. *)
Corollary opened_wires_tell_nothing (z : N -> F) (E : pred seeds) : injective z -> (forall m c, z m != node c) ->
  Pr [pred s | E (opened z s)] = Pr E.
Proof. by move=> distinct outside; apply: Pr_bij; apply: opened_wires_are_uniform. Qed.

(* All else that both servers' answers add up to follows from these: the quotients' values there. *)
Theorem answers_follow_from_wires (r : joint) (s : seeds) (z : N -> F) (i : N) : (forall c, z i != node c) ->
  (forall cj, is_digit (x cj)) ->
  (quotient (honest r s) i).[z i] = (\sum_j r (i, j) * vanishing (opened z s (j, i))) / zero_in_calls.[z i].
Proof.
move=> outside digits; rewrite (_ : \sum_j _ = (of_wires r s i).[z i]); last first.
  by rewrite of_wires_at; apply: eq_bigr => j _; rewrite ffunE.
have at_z : zero_in_calls.[z i] != 0 by rewrite zero_in_calls_at; apply/existsP => -[c]; apply/negP.
by rewrite honest_quotient // hornerM mulrAC divff // mul1r.
Qed.
End Digits.

(** * Equations *)
Section Equations.
Variables (E K : finType) (F : finFieldType).                   (* equations; linear checks of all of them *)

(* Each check is a random combination of all equations' errors: a false one is found but for 1/t a check. *)
Theorem false_equations_pass_rarely (error : E -> F) : ~~ [forall e, error e == 0] ->
  Pr [pred r : weights E K F | [forall k, form_of r error k == 0]] <= 1 / (#|F| ^ #|K|)%:R.
Proof.
move=> /forallPn [e wrong]; rewrite -[#|K|]cardsT.
apply: le_trans (Pr_le _) (random_forms setT (fun=> 0) wrong) => r /forallP none.
by apply/forall_inP.
Qed.
End Equations.

(* Numbers are digits to the base b, each of a length of its own, and equations have multiples of them: what holds
   modulo t holds of integers, as both sides stay below t. *)
Section Integer_equations.
Variables (X : finType) (t b : nat) (B : X -> nat) (digit : X -> nat -> nat) (plus minus : X -> nat) (constant : nat).
Hypotheses (t_prime : prime t) (digits : forall w j, (digit w j < b)%N) (b_positive : (0 < b)%N).
Hypothesis no_wrap : (constant + \sum_w (plus w + minus w) * b ^ B w < t)%N.
Definition number (w : X) : nat := (\sum_(j < B w) b ^ j * digit w j)%N.

Lemma number_small (w : X) : (number w < b ^ B w)%N.
Proof.
rewrite /number; elim: (B w) => [|n IH]; first by rewrite big_ord0.
rewrite big_ord_recr /= expnS.
have top : (digit w n <= b.-1)%N by rewrite -ltnS prednK.
rewrite -addSn; apply: (@leq_trans (b ^ n + b ^ n * b.-1)); last first.
  by rewrite -mulnS prednK // mulnC.
by apply: leq_add => //; rewrite leq_mul2l top orbT.
Qed.

Theorem equations_of_integers :
  ((\sum_w plus w * number w)%N%:R = (constant + \sum_w minus w * number w)%N%:R :> 'F_t) ->
  (\sum_w plus w * number w = constant + \sum_w minus w * number w)%N.
Proof.
have each (m : X -> nat) : (forall w, m w <= plus w + minus w)%N ->
    (constant + \sum_w m w * number w < t)%N.
  move=> among; apply: leq_ltn_trans no_wrap; rewrite leq_add2l; apply: leq_sum => w _.
  by apply: leq_mul; [exact: among | exact/ltnW/number_small].
move=> same; apply: (@same_naturals _ (fun _ : 'I_1 => t)) => //; rewrite ?T1.
- by move=> i j _; rewrite [i]ord1 [j]ord1.
- by apply: leq_ltn_trans (each plus _) => [|w]; rewrite ?leq_addl ?leq_addr.
by apply: each => w; rewrite leq_addl.
Qed.
End Integer_equations.

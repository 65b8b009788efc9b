(* The counting core of the proofs that parties' numbers are counts within their caps (fhe_auc/input_proofs): how often a
   false statement passes, where nobody has chosen what is random; and that true equations hold for integers. *)
From mathcomp Require Import all_ssreflect ssralg finalg zmodp poly ssrnum ssrint rat.
From Verified Require Import Chance Sums Forms Authenticators Integers Vectors.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

(** * Independent tries *)
Lemma Pr_all (N T : finType) (E : N -> pred T) :
  Pr [pred z : {ffun N -> T} | [forall i, E i (z i)]] = \prod_i Pr (E i).
Proof.
have -> : \prod_i Pr (E i) = (\prod_i #|E i|)%N%:R / (\prod_(i : N) #|T|)%N%:R.
  by rewrite !natr_prod -prodf_div.
rewrite /Pr; congr (_%:R / _%:R); last by rewrite card_ffun prod_nat_const.
have -> : (\prod_i #|E i| = #|family E|)%N by rewrite card_family foldrE big_image.
apply: eq_card => z.
by apply/idP/idP => [/forallP all_i|/familyP all_i]; [apply/familyP|apply/forallP] => i; apply: all_i.
Qed.

Section Digits.
Variables (C J : finType) (F : finFieldType) (b : nat).         (* calls, digits of a call, residues, the base *)
Variable x : C * J -> F.                                        (* what was submitted as digits *)

Definition is_digit (a : F) : bool := [exists v : 'I_b, a == v%:R].
Definition vanishing (a : F) : F := \prod_(v < b) (a - v%:R).

Lemma vanishing0 (a : F) : (vanishing a == 0) = is_digit a.
Proof.
rewrite /vanishing prodf_seq_eq0; apply/hasP/existsP => [[v _ /= /eqP av]|[v /eqP ->]].
  by exists v; rewrite -subr_eq0 av.
by exists v; rewrite ?mem_index_enum //= subrr.
Qed.

(** ** The joint randomness: a weight for each digit in each of the proofs *)
Variable N : finType.                                           (* proofs *)
Local Notation joint := (weights [the finType of (C * J)%type] N F).
Definition lucky (r : joint) (i : N) : bool := form_of r (fun cj => vanishing (x cj)) i == 0.

(* All of these proofs can pass though some digit is none. *)
Theorem few_weights_are_lucky (A : {set N}) : ~~ [forall cj, is_digit (x cj)] ->
  Pr [pred r : joint | [forall i in A, lucky r i]] <= 1 / (#|F| ^ #|A|)%:R.
Proof.
move=> /forallPn [cj none]; apply: (@random_forms _ N F A (fun cj => vanishing (x cj)) (fun=> 0) cj).
by rewrite vanishing0.
Qed.

(** ** One proof, looked at at a random point *)
(* Polynomials through the inputs of the gadget in all calls, and through a seed at one point more. *)
Variable point : option C -> F.                                 (* the roots of unity; the seed's is None *)
Hypothesis point_injective : injective point.
Definition through (k : option C) : {poly F} :=
  \prod_(l | l != k) ((point k - point l)^-1 *: ('X - (point l)%:P)).

Definition most : nat := (b * #|C|)%N.                          (* the degree of the gadget's polynomial *)
Record proof := Proof { product_seeds : J -> F; digit_seeds : J -> F; coefficients : 'I_most.+1 -> F }.
Definition claimed (p : proof) : {poly F} := \poly_(k < most.+1) coefficients p (inord k).

Definition wire (seed : F) (v : C -> F) : {poly F} := seed *: through None + \sum_c v c *: through (Some c).
Definition gadget (u a : J -> {poly F}) : {poly F} := \sum_j u j * \prod_(1 <= v < b) (a j - v%:R%:P).
Definition of_wires (r : joint) (i : N) (p : proof) : {poly F} :=
  gadget (fun j => wire (product_seeds p j) (fun c => r (i, (c, j)) * x (c, j)))
         (fun j => wire (digit_seeds p j) (fun c => x (c, j))).

(* The gadget's polynomial is that of the wires at the query point, and its values in all calls add up to zero. *)
Definition holds (r : joint) (i : N) (p : proof) (z : F) : bool :=
  ((claimed p).[z] == (of_wires r i p).[z]) && (\sum_c (claimed p).[point (Some c)] == 0).

Lemma through_at (k l : option C) : (through k).[point l] = (k == l)%:R.
Proof.
rewrite /through horner_prod; have [<-|kl] := eqVneq k l.
  rewrite big1 // => i ik; rewrite hornerZ hornerXsubC mulVf // subr_eq0.
  by apply: contra ik => /eqP/point_injective ->.
by rewrite (bigD1 l) 1?eq_sym //= hornerZ hornerXsubC subrr mulr0 mul0r.
Qed.

Lemma through_size (k : option C) : (size (through k) <= #|C|.+1)%N.
Proof.
have others : #|[pred l | l != k]| = #|C| by rewrite cardC1 card_option.
apply: leq_trans (size_prod_leq _ _) _; rewrite leq_subLR others addnS ltnS.
apply: (@leq_trans (\sum_(l | l != k) 2)%N).
  by apply: leq_sum => l _; apply: leq_trans (size_scale_leq _ _) _; rewrite size_XsubC.
by rewrite sum_nat_const others muln2 addnn.
Qed.

Lemma claimed_size (p : proof) : (size (claimed p) <= most.+1)%N. Proof. exact: size_poly. Qed.

Lemma wire_at (seed : F) (v : C -> F) (c : C) : (wire seed v).[point (Some c)] = v c.
Proof.
rewrite hornerD hornerZ through_at mulr0 add0r horner_sum (bigD1 c) //= hornerZ through_at eqxx mulr1.
by rewrite big1 ?addr0 // => e ec; rewrite hornerZ through_at (inj_eq Some_inj) (negbTE ec) mulr0.
Qed.

Hypothesis b_positive : (0 < b)%N.

Lemma of_wires_at (r : joint) (i : N) (p : proof) :
  \sum_c (of_wires r i p).[point (Some c)] = form_of r (fun cj => vanishing (x cj)) i.
Proof.
transitivity (\sum_c \sum_j r (i, (c, j)) * vanishing (x (c, j))); last first.
  by rewrite pair_bigA; apply: eq_bigr => -[].
apply: eq_bigr => c _.
rewrite horner_sum; apply: eq_bigr => j _; rewrite hornerM wire_at horner_prod -mulrA; congr (_ * _).
rewrite /vanishing -(big_mkord xpredT (fun v => x (c, j) - v%:R)) [RHS]big_ltn // subr0; congr (_ * _).
by apply: eq_bigr => v _; rewrite hornerD hornerN hornerC wire_at.
Qed.

Lemma size_wire (seed : F) (v : C -> F) : (size (wire seed v) <= #|C|.+1)%N.
Proof.
apply: size_plus; first exact: leq_trans (size_scale_leq _ _) (through_size _).
apply: leq_trans (size_sum _ _ _) _; apply/bigmax_leqP => c _.
exact: leq_trans (size_scale_leq _ _) (through_size _).
Qed.

Lemma size_times (p q : {poly F}) (n k : nat) : (size p <= n.+1 -> size q <= k.+1 -> size (p * q)%R <= (n + k).+1)%N.
Proof.
move=> pn qk; apply: leq_trans (size_mul_leq _ _) _; rewrite -ltnS.
by case: (size p + size q)%N (leq_add pn qk) => // s; rewrite addSn addnS ltnS.
Qed.

Lemma size_of_wires (r : joint) (i : N) (p : proof) : (size (of_wires r i p) <= most.+1)%N.
Proof.
apply: leq_trans (size_sum _ _ _) _; apply/bigmax_leqP => j _.
rewrite /most -(prednK b_positive) mulSn; apply: size_times; first exact: size_wire.
have factor v : (size (wire (digit_seeds p j) (fun c => x (c, j)) - v%:R%:P)%R <= #|C|.+1)%N.
  apply: size_plus; first exact: size_wire.
  by rewrite size_opp (leq_trans (size_polyC_leq1 _)).
rewrite big_add1 big_mkord; elim: (b.-1) => [|n IH]; first by rewrite big_ord0 size_poly1.
by rewrite big_ord_recr /= mulSn addnC; apply: size_times.
Qed.

(** ** What is answered about an honest proof, at one point outside the roots, tells nothing of the digits *)
Definition seeds : finType := [the finType of ({ffun J -> F} * {ffun J -> F})%type].
Definition opened (r : joint) (i : N) (z : F) (s : seeds) : seeds :=
  ([ffun j => (wire (s.1 j) (fun c => r (i, (c, j)) * x (c, j))).[z]],
   [ffun j => (wire (s.2 j) (fun c => x (c, j))).[z]]).
Definition gadget_of (o : seeds) : F := \sum_j o.1 j * \prod_(1 <= v < b) (o.2 j - v%:R).

(* The wires' values there are as uniform as the seeds, whatever digits and weights are. *)
Theorem opened_wires_are_uniform (r : joint) (i : N) (z : F) (away_from_roots : forall c, z != point c) :
  bijective (opened r i z).
Proof.
have at_z : (through None).[z] != 0.
  rewrite horner_prod; apply/prodf_neq0 => l lN; rewrite hornerZ hornerXsubC mulf_neq0 ?invr_eq0 ?subr_eq0 //.
  by rewrite eq_sym; apply: contra lN => /eqP/point_injective ->.
apply: injF_bij => -[u a] [u' a'] [/ffunP same_u /ffunP same_a]; congr (_, _); apply/ffunP => j.
  by have := same_u j; rewrite !ffunE !hornerD !hornerZ => /addIr/(mulIf at_z).
by have := same_a j; rewrite !ffunE !hornerD !hornerZ => /addIr/(mulIf at_z).
Qed.

(* So whatever either server does with them, as to send other answers and hear the verdict: for all digits alike. *)
Corollary opened_wires_tell_nothing (r : joint) (i : N) (z : F) (E : pred seeds) : (forall c, z != point c) ->
  Pr [pred s | E (opened r i z s)] = Pr E.
Proof. by move=> away_from_roots; apply: Pr_bij; apply: opened_wires_are_uniform. Qed.

(* All else that both servers' answers add up to follows from these: the gadget's polynomial there, and zero. *)
Theorem answers_follow_from_wires (r : joint) (i : N) (z : F) (s : seeds) (p : proof) :
  product_seeds p =1 s.1 -> digit_seeds p =1 s.2 -> claimed p = of_wires r i p -> (forall cj, is_digit (x cj)) ->
  (claimed p).[z] = gadget_of (opened r i z s) /\ \sum_c (claimed p).[point (Some c)] = 0.
Proof.
move=> us as_ -> digits; split; last first.
  by rewrite of_wires_at; apply: big1 => cj _; have := digits cj; rewrite -vanishing0 => /eqP ->; rewrite mulr0.
rewrite horner_sum; apply: eq_bigr => j _; rewrite hornerM horner_prod ffunE us; congr (_ * _).
by apply: eq_bigr => v _; rewrite hornerD hornerN hornerC ffunE as_.
Qed.

(* Query points are drawn among these. *)
Variable away : {set F}.
Local Notation query := {z | z \in away}.

(* Without luck in its weights, a proof passes for few of the points: the party chooses it when it knows all weights. *)
Theorem false_proof_passes_rarely (r : joint) (i : N) (p : proof) : ~~ lucky r i ->
  Pr [pred z : query | holds r i p (val z)] <= most%:R / #|away|%:R.
Proof.
move=> unlucky; have [away0|away0] := posnP #|away|.
  rewrite /Pr (_ : #|{: query}| = 0%N) ?away0 ?invr0 ?mulr0 //; by rewrite card_sig.
apply: Pr_bound => //; rewrite card_sig leq_mul2r; apply/orP; right.
have [same|differ] := eqVneq (claimed p) (of_wires r i p).
  rewrite eq_card0 // => z; rewrite !inE /holds same of_wires_at eqxx /=; exact: negbTE.
rewrite -subr_eq0 in differ; apply: leq_trans (few_roots_among _ (n := most) differ _).
  by apply/subset_leq_card/subsetP => z; rewrite !inE /root hornerD hornerN subr_eq0 => /andP [].
by apply: size_plus; rewrite ?size_opp ?claimed_size ?size_of_wires.
Qed.

(* Several proofs, each looked at at a point of its own: all of those without luck have to be passed. *)
Theorem false_proofs_pass_rarely (r : joint) (p : N -> proof) :
  Pr [pred z : {ffun N -> query} | [forall i, holds r i (p i) (val (z i))]]
    <= (most%:R / #|away|%:R) ^+ #|[set i | ~~ lucky r i]|.
Proof.
rewrite (Pr_all (fun i => [pred z : query | holds r i (p i) (val z)])) -prodr_const big_mkcond /=.
rewrite [leRHS]big_mkcond /=; apply: ler_prod => i _; rewrite Pr_ge0 inE.
by case: ifP => [|_]; [apply: false_proof_passes_rarely | apply: Pr_le1].
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

(* Counts are digits to the base b, and none is in an equation twice: modulo t it says what it says of integers. *)
Section Integer_equations.
Variables (X : finType) (t b B : nat) (digit : X -> 'I_B -> nat) (plus minus : {set X}) (constant : nat).
Hypotheses (t_prime : prime t) (digits : forall w j, (digit w j < b)%N) (b_positive : (0 < b)%N).
Hypotheses (constant_small : (constant < b ^ B)%N) (no_wrap : (#|X|.+1 * b ^ B < t)%N).
Definition number (w : X) : nat := (\sum_(j < B) b ^ j * digit w j)%N.

Lemma number_small (w : X) : (number w < b ^ B)%N.
Proof.
rewrite /number; elim: B (digit w) (digits w) => [|n IH] d db; first by rewrite big_ord0.
rewrite big_ord_recr /= expnS; have := IH (fun j => d (widen_ord (leqnSn n) j)) (fun j => db _).
have top : (d ord_max <= b.-1)%N by rewrite -ltnS prednK.
rewrite -ltnS => below; rewrite -addSn; apply: (@leq_trans (b ^ n + b ^ n * b.-1)); last first.
  by rewrite -mulnS prednK // mulnC.
by apply: leq_add => //; rewrite leq_mul2l top orbT.
Qed.

Theorem equations_of_integers :
  ((\sum_(w in plus) number w)%N%:R = (constant + \sum_(w in minus) number w)%N%:R :> 'F_t) ->
  (\sum_(w in plus) number w = constant + \sum_(w in minus) number w)%N.
Proof.
have total (A : {set X}) : (\sum_(w in A) number w <= #|X| * b ^ B)%N.
  apply: (@leq_trans (\sum_(w in A) b ^ B)%N); first by apply: leq_sum => w _; apply/ltnW/number_small.
  by rewrite sum_nat_const leq_mul2r max_card orbT.
move=> same; apply: (@same_naturals _ (fun _ : 'I_1 => t)) => //; rewrite ?T1.
- by move=> i j _; rewrite [i]ord1 [j]ord1.
- by apply: leq_ltn_trans no_wrap; rewrite mulSn (leq_trans (total plus)) ?leq_addl.
apply: leq_ltn_trans no_wrap; rewrite mulSn leq_add ?total //; exact: ltnW.
Qed.
End Integer_equations.

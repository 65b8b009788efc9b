(* The authenticators modulo one prime (fhe_auc/sums/proof.py): what is sent, that honest results pass, that what is
   sent says nothing of alpha, and that a wrong result passes for few alpha. *)
From mathcomp Require Import all_ssreflect ssralg finalg zmodp poly ssrnum ssrint rat.
From Verified Require Import Chance Sums.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import GRing.Theory.
Local Open Scope ring_scope.

Section Authenticators.
Variables (I J S : finType).                                    (* parties, entries of a sketch, sums *)
Variable f : S -> msum J.                                       (* the sums *)
Local Notation d s := (degree (f s)).
Variable F : finFieldType.

(** * What is secret, and what is sent *)
Local Notation blinded := {s : S | (1 < d s)%N}.                (* sums of degree two or more *)
Local Notation slot := {s : S & 'I_(d s).-1}.                   (* and their blinders but the last *)

Definition entries : finType := [the finType of {ffun I * J -> F}].
Definition frees : finType := [the finType of {ffun I * slot -> F}].
Definition lasts : finType := [the finType of {ffun I * blinded -> F}].
(* A secret is rho, the blinders mu^1 ... mu^(d-1), and u; a submission w', mu^1 ... mu^(d-1), and mu^d. *)
Definition secret : finType := [the finType of (entries * frees * lasts)%type].
Definition submission : finType := secret.
Definition point : finType := [the finType of {a : F | a != 0}].

Definition of_sum (v : lasts) (i : I) (s : S) : F := if insub s is Some b then v (i, b) else 0.
Definition blinders (mu : frees) (i : I) (s : S) : {poly F} :=  (* sum of mu^j z^j over j < d *)
  \sum_(j < (d s).-1) mu (i, Tagged (fun s => 'I_(d s).-1) j) *: 'X^(j.+1).

Definition submit (alpha : point) (w : entries) (x : secret) : submission :=
  let: (rho, mu, u) := x in
  ([ffun ij => (rho ij - w ij) / val alpha], mu,
   [ffun ib => (u ib - (blinders mu ib.1 (val ib.2)).[val alpha]) / val alpha ^+ d (val ib.2)]).

(** * What the aggregator ought to compute, and what parties compare it with; L are the parties that count *)
Definition pooled (L : {set I}) (v : entries) (j : J) : F := \sum_(i in L) v (i, j).

Definition H (w : entries) (y : submission) (L : {set I}) (s : S) : {poly F} :=
  let: (w', mu, last) := y in
  value (f s) (fun j => (pooled L w j)%:P + pooled L w' j *: 'X)
  + \sum_(i in L) (blinders mu i s + of_sum last i s *: 'X^(d s)).

Definition expected (x : secret) (L : {set I}) (s : S) : F :=
  let: (rho, mu, u) := x in value (f s) (pooled L rho) + \sum_(i in L) of_sum u i s.

(** * Honest results are right, and pass *)
Lemma point_neq0 (alpha : point) : val alpha != 0. Proof. by case: alpha. Qed.

Lemma blinders0 (mu : frees) (i : I) (s : S) : (blinders mu i s).[0] = 0.
Proof. by rewrite horner_sum big1 // => j _; rewrite hornerZ hornerXn expr0n mulr0. Qed.

Lemma blinders_linear (mu : frees) (i : I) (s : S) : ~~ (1 < d s)%N -> blinders mu i s = 0.
Proof.
move=> lin; have none : (d s).-1 = 0%N by move: lin; case: (d s) => [|[|n]].
by rewrite /blinders big1 // => j; have := ltn_ord j; rewrite [X in (_ < X)%N]none.
Qed.

Theorem honest_is_right (w : entries) (y : submission) (L : {set I}) (s : S) :
  (H w y L s).[0] = value (f s) (pooled L w).
Proof.
case: y => [[w' mu] last]; rewrite hornerD horner_value horner_sum [X in _ + X]big1 ?addr0 => [|i _].
  apply: eq_value => j.
  by rewrite hornerD hornerC hornerZ hornerX mulr0 addr0.
rewrite hornerD blinders0 hornerZ hornerXn add0r /of_sum; case: insubP => [b sb _|_]; last exact: mul0r.
by rewrite expr0n; case: (d s) sb => // n _; rewrite mulr0.
Qed.

Theorem honest_passes (alpha : point) (w : entries) (x : secret) (L : {set I}) (s : S) :
  (H w (submit alpha w x) L s).[val alpha] = expected x L s.
Proof.
case: x => [[rho mu] u]; have a0 := point_neq0 alpha; rewrite /H /submit /expected hornerD horner_value horner_sum;
  congr (_ + _).
  apply: eq_value => j.
  rewrite hornerD hornerC hornerZ hornerX /pooled mulr_suml -big_split; apply: eq_bigr => i _.
  by rewrite ffunE /= divfK // addrC subrK.
apply: eq_bigr => i _; rewrite hornerD hornerZ hornerXn /of_sum.
case: insubP => [b _ vb|]; last by move=> lin; rewrite blinders_linear // horner0 mul0r addr0.
by rewrite ffunE /= vb divfK ?expf_neq0 // addrC subrK.
Qed.

(** * What is sent says nothing of alpha *)
Definition recover (alpha : point) (w : entries) (y : submission) : secret :=
  let: (w', mu, last) := y in
  ([ffun ij => w' ij * val alpha + w ij], mu,
   [ffun ib => last ib * val alpha ^+ d (val ib.2) + (blinders mu ib.1 (val ib.2)).[val alpha]]).

Lemma submitK (alpha : point) (w : entries) : cancel (submit alpha w) (recover alpha w).
Proof.
move=> [[rho mu] u]; have a0 := point_neq0 alpha; rewrite /submit /recover.
by congr (_, _, _); apply/ffunP => k; rewrite !ffunE divfK ?expf_neq0 //; exact: subrK.
Qed.

Lemma recoverK (alpha : point) (w : entries) : cancel (recover alpha w) (submit alpha w).
Proof.
move=> [[w' mu] last]; have a0 := point_neq0 alpha; rewrite /submit /recover.
by congr (_, _, _); apply/ffunP => k; rewrite !ffunE addrK mulfK ?expf_neq0.
Qed.

Theorem submit_bijective (alpha : point) (w : entries) : bijective (submit alpha w).
Proof. by exists (recover alpha w); [apply: submitK | apply: recoverK]. Qed.

(* Of whatever event of what is sent, the chance is that of uniform numbers: for every alpha the same. *)
Corollary submission_uniform (alpha : point) (w : entries) (E : pred submission) :
  Pr [pred x | E (submit alpha w x)] = Pr E.
Proof. exact: Pr_bij (submit_bijective alpha w). Qed.

(** * A wrong result passes for d values of alpha at most *)
Lemma few_roots_among (Q : pred F) (p : {poly F}) (n : nat) : p != 0 -> (size p <= n.+1)%N ->
  (#|[pred a : {a | Q a} | root p (val a)]| <= n)%N.
Proof.
move=> p0 pn; rewrite -(card_image val_inj) -ltnS cardE; apply: leq_trans pn.
apply: max_poly_roots p0 _ (enum_uniq _); apply/allP => a.
by rewrite mem_enum => /imageP [b + ->].
Qed.

Lemma size_H (w : entries) (y : submission) (L : {set I}) (s : S) : (size (H w y L s) <= (d s).+1)%N.
Proof.
case: y => [[w' mu] last]; apply: size_plus.
  apply: size_value => j; apply: size_plus; first exact: leq_trans (size_polyC_leq1 _) _.
  by apply: leq_trans (size_scale_leq _ _) _; rewrite size_polyX.
apply: leq_trans (size_sum _ _ _) _; apply/bigmax_leqP => i _; apply: size_plus.
  apply: leq_trans (size_sum _ _ _) _; apply/bigmax_leqP => j _.
  apply: leq_trans (size_scale_leq _ _) _; rewrite size_polyXn !ltnS; exact: leq_trans (ltn_ord j) (leq_pred _).
by apply: leq_trans (size_scale_leq _ _) _; rewrite size_polyXn.
Qed.

Lemma wrong_passes_rarely (w : entries) (y : submission) (L : {set I}) (s : S) (n : {poly F}) :
  (size n <= (d s).+1)%N -> n != H w y L s ->
  (#|[pred a : point | n.[val a] == (H w y L s).[val a]]| <= d s)%N.
Proof.
move=> nd nH; rewrite -subr_eq0 in nH.
have sz : (size (n - H w y L s)%R <= (d s).+1)%N by apply: size_plus; rewrite ?size_opp ?size_H.
apply: leq_trans (few_roots_among _ nH sz); apply/eq_leq/eq_card => a.
by rewrite !inE /root hornerD hornerN subr_eq0.
Qed.

(* And for that many it can: the bound is reached. *)
Lemma wrong_passes_that_often (w : entries) (y : submission) (L : {set I}) (s : S) (A : {set point}) : #|A| = d s ->
  exists n : {poly F}, [/\ (size n <= (d s).+1)%N, n != H w y L s &
    #|[pred a : point | n.[val a] == (H w y L s).[val a]]| = d s].
Proof.
move=> Ad; pose e : {poly F} := \prod_(a <- enum A) ('X - (val a)%:P).
have se : size e = (d s).+1 by rewrite size_prod_XsubC -cardE Ad.
exists (H w y L s + e); split; first by rewrite size_plus ?size_H ?se.
  by rewrite -subr_eq0 addrAC subrr add0r -size_poly_eq0 se.
rewrite -Ad; apply: eq_card => a; rewrite inE hornerD -subr_eq0 addrAC subrr add0r.
rewrite -[_ == 0]/(root e (val a)) /e -(big_map val predT (fun b => 'X - b%:P)) root_prod_XsubC.
by rewrite (mem_map val_inj) mem_enum.
Qed.
End Authenticators.

(** * Polynomials from their values at 0 ... d *)
Section Interpolation.
Variable F : fieldType.
Definition interpolated (d : nat) (v : nat -> F) : {poly F} :=
  \sum_(z < d.+1) v z *: \prod_(y < d.+1 | y != z) ((z%:R - y%:R)^-1 *: ('X - y%:R%:P)).

Lemma size_interpolated (d : nat) (v : nat -> F) : (size (interpolated d v) <= d.+1)%N.
Proof.
apply: leq_trans (size_sum _ _ _) _; apply/bigmax_leqP => z _; apply: leq_trans (size_scale_leq _ _) _.
apply: leq_trans (size_prod_leq _ _) _; rewrite leq_subLR addnS ltnS (cardC1 z) card_ord /=.
apply: (@leq_trans (\sum_(y < d.+1 | y != z) 2)%N).
  by apply: leq_sum => y _; apply: leq_trans (size_scale_leq _ _) _; rewrite size_XsubC.
by rewrite sum_nat_const (cardC1 z) card_ord /= muln2 addnn.
Qed.

(* It takes these values, where none of 1 ... d is zero modulo the prime. *)
Lemma interpolated_at (d : nat) (v : nat -> F) (k : nat) :
  (forall i, (0 < i <= d)%N -> i%:R != 0 :> F) -> (k <= d)%N -> (interpolated d v).[k%:R] = v k.
Proof.
move=> small kd; have differ (x y : 'I_d.+1) : x != y -> x%:R - y%:R != 0 :> F.
  wlog yx : x y / (y < x)%N => [below|] xy.
    case: (ltngtP y x) => [yx|yx|/val_inj yx]; first exact: below.
      by rewrite -oppr_eq0 opprB below // eq_sym.
    by rewrite yx eqxx in xy.
  by rewrite -natrB 1?ltnW // small // subn_gt0 yx /= (leq_trans (leq_subr _ _)) // -ltnS.
pose k' : 'I_d.+1 := Ordinal (kd : k < d.+1)%N.
rewrite /interpolated horner_sum (bigD1 k') //= hornerZ horner_prod [X in v k * X]big1 ?mulr1 => [|y yk].
  rewrite big1 ?addr0 // => z zk; rewrite hornerZ horner_prod (bigD1 k') 1?eq_sym //=.
  by rewrite hornerZ hornerXsubC subrr mulr0 mul0r mulr0.
by rewrite hornerZ hornerXsubC mulVf // (differ k') // eq_sym.
Qed.
End Interpolation.

(* The theorem of docs/security/verified.md: what parties read are the exact sums of integers, or an error. *)
From mathcomp Require Import all_ssreflect ssralg finalg zmodp poly ssrnum ssrint rat.
From Verified Require Import Chance Sums Authenticators Game Session.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

(** * Chinese remainders *)
Section Remainders.
Variables (P : finType) (t : P -> nat).
Hypotheses (t_prime : forall p, prime (t p)) (t_differ : injective t).
Definition field (p : P) : finFieldType := [the finFieldType of 'F_(t p)].
Definition T : nat := (\prod_p t p)%N.

Lemma T_divides (n : nat) : (forall p, t p %| n)%N -> (T %| n)%N.
Proof.
move=> each; rewrite /T; elim: (index_enum P) (index_enum_uniq P) => [|p ps IH] /=; first by rewrite big_nil dvd1n.
case/andP => pps /IH {}IH; rewrite big_cons Gauss_dvd ?each // {IH}; elim: ps pps => [|q ps IH].
  by rewrite big_nil coprimen1.
rewrite inE negb_or big_cons coprimeMr => /andP [pq /IH ->]; rewrite andbT prime_coprime // dvdn_prime2 //.
by apply: contra pq => /eqP/t_differ ->.
Qed.

Lemma same_naturals (x y : nat) : (forall p, x%:R = y%:R :> field p) -> (x < T)%N -> (y < T)%N -> x = y.
Proof.
wlog xy : x y / (x <= y)%N => [below|same _ yT].
  by case/orP: (leq_total x y) => [xy|yx] same xT yT; [|symmetry]; apply: below.
have : (T %| y - x)%N.
  by apply: T_divides => p; rewrite (dvdn_charf (char_Fp (t_prime p))) natrB // [x%:R]same subrr.
rewrite /dvdn modn_small ?subn_eq0 => [yx|]; first by apply/eqP; rewrite eqn_leq xy.
exact: leq_ltn_trans (leq_subr _ _) yT.
Qed.

(* The integer from lo on, below lo + T, that has these residues. *)
Definition in_range (lo x : int) : bool := (lo <= x) && (x < lo + T%:Z).
Definition read (lo : int) (r : forall p, field p) : int :=
  if [pick i : 'I_T | [forall p, i%:R == r p - lo%:~R]] is Some i then lo + (val i)%:Z else lo.

Lemma in_rangeP (lo x : int) : reflect (exists2 i : nat, (i < T)%N & x = lo + i%:Z) (in_range lo x).
Proof.
apply: (iffP andP) => [[lx xl]|[i iT ->]].
  have i0 : 0 <= x - lo by rewrite subr_ge0.
  exists `|x - lo|%N; last by rewrite gez0_abs // addrC subrK.
  by rewrite -subr_gt0 in xl; rewrite -ltz_nat gez0_abs // -subr_gt0 opprB addrA [_ + lo]addrC.
by rewrite -subr_ge0 addrAC subrr add0r -subr_gt0 opprD addrACA subrr add0r subr_gt0 ltz_nat.
Qed.

Lemma read_residues (lo : int) (r : forall p, field p) :
  in_range lo (read lo r) /\ forall p, (read lo r)%:~R = r p.
Proof.
pose residues (i : 'I_T) : {dffun forall p, field p} := [ffun p => (val i)%:R].
have inj : injective residues.
  by move=> i j /ffunP ij; apply/val_inj/same_naturals; rewrite ?ltn_ord // => p; have := ij p; rewrite !ffunE.
have sizes : (#|{dffun forall p, field p}| <= #|'I_T|)%N.
  rewrite card_dep_ffun foldrE big_image card_ord /T; apply: leq_prod => p _; by rewrite card_Fp.
have [g _ gK] := inj_card_bij inj sizes.
rewrite /read; case: pickP => [i /forallP ri|/(_ (g [ffun p => r p - lo%:~R]))/forallPn [p]].
  split=> [|p]; first by apply/in_rangeP; exists i.
  by rewrite intrD -pmulrn (eqP (ri p)) addrC subrK.
by have /ffunP/(_ p) := gK [ffun p => r p - lo%:~R]; rewrite !ffunE => ->; rewrite eqxx.
Qed.

Lemma read_unique (lo x : int) (r : forall p, field p) :
  in_range lo x -> (forall p, x%:~R = r p) -> read lo r = x.
Proof.
move=> /in_rangeP [i iT ->] xr; have [/in_rangeP [j jT ->] jr] := read_residues lo r.
congr (_ + _%:Z); apply: same_naturals => // p.
by apply: (addrI lo%:~R); have := jr p; rewrite -xr !intrD -!pmulrn.
Qed.
(* Two ways to read: around zero, as numbers that may be negative, and from zero on. *)
Definition around_zero : int := - ((T.-1)./2)%:Z.

Lemma symmetric_range (v : int) : (0 < T)%N -> `|v| <= (T.-1./2)%:Z -> in_range around_zero v.
Proof.
move=> T0; rewrite ler_norml => /andP [low high]; apply/andP; split=> //; apply: le_lt_trans high _.
rewrite -subr_gt0 /around_zero addrAC -opprD addrC subr_gt0 -PoszD ltz_nat addnn -[X in (_ < X)%N](prednK T0) ltnS.
by rewrite -geq_half_double.
Qed.

Lemma natural_range (v : int) (n : nat) : 0 <= v -> `|v| <= n%:Z -> (n < T)%N -> in_range 0 v.
Proof.
move=> v0 vn nT; rewrite /in_range v0 add0r /=; apply: le_lt_trans (le_trans (ler_norm v) vn) _.
by rewrite ltz_nat.
Qed.
End Remainders.

(** * The theorem *)
Section Exact_sums.
Variables (I S P : finType).                                    (* parties, sums, primes *)
Variable takes : P -> pred S.                                   (* which sums are released modulo a prime *)
Local Notation own p := [the finType of {s : S | takes p s}].
Variables (J : P -> finType) (f : forall p, own p -> msum (J p)) (d : nat).  (* entries; sums, the most of their degrees *)
Variables (t : P -> nat) (least : nat).                         (* the primes, and the least of them *)
Variable m : nat.                                               (* min_parties; 1 with a helper *)
Variable lo : S -> int.                                         (* each sum is read from lo on, below lo + its T *)
Variable shows : (S -> int) -> S -> bool.                       (* which of the integers that they read parties show *)
Variable sketch : forall p, I * J p -> int.                     (* the parties' counts *)
Variable exact : {set I} -> S -> int.                           (* the sums of these parties *)

Hypotheses (t_prime : forall p, prime (t p)) (t_differ : injective t).
Hypotheses (t_least : forall p, (least <= t p)%N) (m_positive : (0 < m)%N).
Hypotheses (d_most : forall p (s : own p), (degree (f s) <= d)%N) (d_small : (d < least)%N).
Variables (p0 : P) (s0 : own p0).
Hypothesis blinded : (1 < degree (f s0))%N.                     (* some sum is one of products *)

(* Modulo whichever prime: a sketch there is of the same rows. *)
Hypothesis sums_exact : forall p (s : own p) (L : {set I}),
  value (f s) (fun j => \sum_(i in L) sketch (i, j)) = exact L (val s).

(* A sum's own primes. *)
Definition primes_of (s : S) (p : [the finType of {p : P | takes p s}]) : nat := t (val p).
Arguments primes_of : clear implicits.

(* A sum is in range, or the sums in range (the numbers of rows) show that it may not be, and parties do not show it. *)
Definition ranged (L : {set I}) (s : S) : bool := in_range (primes_of s) (lo s) (exact L s).
Hypothesis ranges : forall (L : {set I}) (s : S), ranged L s \/
  (forall z : S -> int, (forall s', ranged L s' -> z s' = exact L s') -> ~~ shows z s).

Definition residues (p : P) : entries I (J p) (field t p) := [ffun ij => (sketch ij)%:~R].
Definition integers (c : result I (fun p => own p) (field t)) (s : S) : int :=
  read (t := primes_of s) (lo s) (fun p => decrypted c (exist _ s (valP p) : own (val p)) 0%N).

(* An aggregator knows all sketches, and sees all that has been sent, and every verdict, before its next turn. *)
Variable aggregator : secrets I f (field t) -> seq bool -> I + result I (fun p => own p) (field t).

(* Of a result that parties accept they show an integer that is wrong, or one of parties that have not submitted: D
   have. *)
Definition misled (D : {set I}) (c : result I (fun p => own p) (field t)) : bool :=
  [exists s, shows (integers c) s && ((integers c s != exact (counted c) s) || ~~ (counted c \subset D))].
Definition deceived : nat -> points (field t) -> secrets I f (field t) -> bool :=
  Game.some_accepted (sent residues) (@shown I P J (fun p => own p) f (field t)) (fun=> ord0 : 'I_1)
    (@evaluating I P (fun p => own p) (field t)) (@accepts I P J (fun p => own p) f (field t)) (fun=> m) aggregator misled.

Lemma primes_differ (s : S) : injective (primes_of s).
Proof. by move=> p q /t_differ /val_inj. Qed.

Lemma right_integers (y : secrets I f (field t)) (c : result I (fun p => own p) (field t)) (s : S) :
  correct residues y c -> ranged (counted c) s -> integers c s = exact (counted c) s.
Proof.
move=> /forallP ok range; apply: (@read_unique _ _ _ (@primes_differ s)) => // [p|p]; first exact: t_prime.
set s' : own (val p) := exist _ s (valP p).
have -> : decrypted c s' 0 = (polynomial f c s').[0].
  rewrite -[0 in RHS]/(0%:R) interpolated_at // => i /andP [i0 id].
  rewrite -(dvdn_charf (char_Fp (t_prime (val p)))) gtnNdvd //.
  exact: leq_ltn_trans (leq_trans id (d_most s')) (leq_trans d_small (t_least _)).
have /forallP/(_ s')/eqP -> := ok (val p); rewrite honest_is_right -(sums_exact s').
rewrite -[LHS]/(intr _) value_morph; apply: eq_value => j.
by rewrite /pooled rmorph_sum; apply: eq_bigr => i _; rewrite ffunE.
Qed.

Lemma misled_is_wrong (D : {set I}) (y : secrets I f (field t)) (c : result I (fun p => own p) (field t)) :
  misled D c -> ~~ right (@counted I P (fun p => own p) (field t)) (correct residues) D y c.
Proof.
move=> /existsP [s /andP [shown]]; apply: contraL => /andP [there ok].
rewrite there orbF negbK; apply/eqP; case: (ranges (counted c) s) => [|hidden]; first exact: right_integers ok.
by rewrite (negbTE (hidden (integers c) _)) // in shown => s'; apply: right_integers ok.
Qed.

Lemma least1 : (1 < least)%N.
Proof. exact: leq_trans (leq_trans blinded (d_most s0)) (ltnW d_small). Qed.

Theorem verified (turns : nat) :
  Pr [pred ax : points (field t) * secrets I f (field t) | deceived turns ax.1 ax.2]
    <= (#|I| %/ m * d)%:R / least.-1%:R.
Proof.
apply: le_trans (@soundness _ _ _ _ _ _ residues _ least d_most _ least1 p0 _ blinded _ m_positive aggregator turns).
  apply: Pr_le => -[a x] /=; apply: Game.some_accepted_le => D c; exact: misled_is_wrong.
by move=> p; rewrite card_Fp.
Qed.
End Exact_sums.
Arguments primes_of {S P} takes t s p.

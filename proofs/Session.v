(* A session of several primes: whatever the aggregator does, a wrong result is accepted with a small chance. *)
From mathcomp Require Import all_ssreflect ssralg finalg zmodp poly ssrnum ssrint rat.
From Verified Require Import Chance Sums Authenticators Game.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Section Session.
Variables (I J S P : finType).                                  (* parties, entries, sums, primes *)
Variable f : S -> msum J.
Variable F : P -> finFieldType.                                 (* residues modulo each prime *)
Variable w : forall p, entries I J (F p).                       (* the parties' sketches *)
Variable absent : {set I}.                                      (* parties that have not submitted *)

Definition points : finType := [the finType of {dffun forall p, point (F p)}].
Definition secrets : finType := [the finType of {dffun forall p, secret I f (F p)}].
Definition sent (a : points) (x : secrets) : secrets := [ffun p => submit (a p) (w p) (x p)].
Definition unsent (a : points) (y : secrets) : secrets := [ffun p => recover (a p) (w p) (y p)].

(* Whoever has not submitted has secrets of which nothing was sent: they are drawn apart, with the points. The
   aggregator is shown what it would have sent under others, which says nothing and is not compared with anything. *)
Definition keys : finType := [the finType of (points * secrets)%type].
Definition own (F : finFieldType) (x apart : secret I f F) : secret I f F :=
  let: (rho, mu, u) := x in let: (rho', mu', u') := apart in
  ([ffun ij => if ij.1 \in absent then rho' ij else rho ij], mu,
   [ffun ib => if ib.1 \in absent then u' ib else u ib]).

(* What a group of parties evaluates: which parties these are (with the echo, those that count; with a helper, each one
   alone), which parties count, and for each prime and sum the values at 0 ... d that decrypt. *)
Record result := Result { evaluating : {set I}; counted : {set I}; decrypted : forall p : P, S -> nat -> F p }.
Definition polynomial (c : result) (p : P) (s : S) : {poly F p} := interpolated (degree (f s)) (decrypted c p s).

Definition right (y : secrets) (c : result) : bool :=
  [disjoint counted c & absent] && [forall p, forall s, polynomial c p s == H (w p) (y p) (counted c) s].
Definition accepts (a : keys) (x : secrets) (c : result) : bool :=
  [forall p, forall s, (polynomial c p s).[val (a.1 p)] == expected (own (x p) (a.2 p)) (counted c) s].

(** * What the game needs to know of it *)
Lemma sentK (a : keys) : cancel (sent a.1) (unsent a.1).
Proof. by move=> x; apply/ffunP => p; rewrite !ffunE submitK. Qed.
Lemma unsentK (a : keys) : cancel (unsent a.1) (sent a.1).
Proof. by move=> y; apply/ffunP => p; rewrite !ffunE recoverK. Qed.

(* Where all that count have submitted, the others' secrets do not matter. *)
Lemma expected_own (p : P) (x apart : secret I f (F p)) (L : {set I}) (s : S) :
  [disjoint L & absent] -> expected (own x apart) L s = expected x L s.
Proof.
move=> /disjointFr there; case: x apart => [[rho mu] u] [[rho' mu'] u'] /=; congr (_ + _).
  by apply: eq_value => j; apply: eq_bigr => i /there out; rewrite ffunE /= out.
by apply: eq_bigr => i /there out; rewrite /of_sum; case: insubP => // b _ _; rewrite ffunE /= out.
Qed.

Lemma acceptsE (a : keys) (y : secrets) (c : result) : [disjoint counted c & absent] ->
  accepts a (unsent a.1 y) c =
  [forall p, forall s, (polynomial c p s).[val (a.1 p)] == (H (w p) (y p) (counted c) s).[val (a.1 p)]].
Proof.
move=> there; apply: eq_forallb => p; apply: eq_forallb => s; congr (_ == _); rewrite expected_own // ffunE.
by rewrite -(@honest_passes _ _ _ _ _ (a.1 p) (w p)) recoverK.
Qed.

Lemma right_is_accepted (a : keys) (y : secrets) (c : result) : right y c -> accepts a (unsent a.1 y) c.
Proof.
move=> /andP [there /forallP ok]; rewrite acceptsE //; apply/forallP => p; apply/forallP => s.
by have /forallP/(_ s)/eqP -> := ok p.
Qed.

Variables (d t : nat).
Hypothesis d_most : forall s, (degree (f s) <= d)%N.
Hypothesis t_least : forall p, (t <= #|F p|)%N.
Hypothesis t1 : (1 < t)%N.
Variables (p0 : P) (s0 : S).
Hypothesis blinded : (1 < degree (f s0))%N.                     (* some sum has degree two or more *)

Definition chance : rat := d%:R / t.-1%:R.

(* A party that has not submitted: its u is anything, so what is expected is. *)
Lemma absent_is_noticed (y : secrets) (c : result) (i0 : I) : i0 \in counted c -> i0 \in absent ->
  Pr [pred a : keys | accepts a (unsent a.1 y) c] <= 1 / #|F p0|%:R.
Proof.
move=> i0L i0out; have F0 : (0 < #|F p0|)%N by apply: leq_trans (ltnW t1) (t_least p0).
have frac0 : 0 <= 1 / #|F p0|%:R :> rat by rewrite divr_ge0 ?ler0n.
apply: (@Pr_given _ _ (fun a => [pred x' | accepts (a, x') (unsent a y) c])) => // a.
pose e (z : secret I f (F p0)) := (polynomial c p0 s0).[val (a p0)] == expected (own (unsent a y p0) z) (counted c) s0.
apply: (@le_trans _ _ (Pr [pred x' : secrets | e (x' p0)])).
  by apply: Pr_le => x' /= /forallP/(_ p0)/forallP/(_ s0).
apply: le_trans (@Pr_coordinate P (fun p => secret I f (F p)) p0 e) _.
pose b0 : {s : S | (1 < degree (f s))%N} := Sub s0 blinded.
pose shift (v : F p0) (z : secret I f (F p0)) : secret I f (F p0) :=
  let: (rho, mu, u) := z in (rho, mu, [ffun ib => u ib + (if ib == (i0, b0) then v else 0)]).
have moved v z : expected (own (unsent a y p0) (shift v z)) (counted c) s0
    = expected (own (unsent a y p0) z) (counted c) s0 + v.
  case: (unsent a y p0) z => [[rho mu] u] [[rho' mu'] u'] /=; rewrite -addrA; congr (_ + _).
  rewrite (bigD1 i0) //= [in RHS](bigD1 i0) //= addrAC; congr (_ + _).
    rewrite /of_sum; case: insubP => [b _ bs|]; last by rewrite blinded.
    have -> : b = b0 by apply: val_inj.
    by rewrite !ffunE /= i0out eqxx.
  apply: eq_bigr => i /andP [_ ii0]; rewrite /of_sum; case: insubP => // b _ _; rewrite !ffunE /=.
  by case: ifP => // _; rewrite xpair_eqE (negbTE ii0) addr0.
apply: (@Pr_one_of _ _ e shift) => // [v|z v v' /eqP one /eqP other].
  move=> [[rho mu] u] [[rho' mu'] u'] [-> -> /ffunP same]; congr (_, _, _); apply/ffunP => ib.
  by have := same ib; rewrite !ffunE => /addIr.
by apply: (addrI (expected (own (unsent a y p0) z) (counted c) s0)); rewrite -!moved -one -other.
Qed.

Lemma wrong_is_refused (y : secrets) (c : result) :
  ~~ right y c -> Pr [pred a : keys | accepts a (unsent a.1 y) c] <= chance.
Proof.
move=> wrong; have t0 : (0 < t.-1)%N by rewrite -ltnS prednK // ltnW.
have F1 p : (t.-1 <= #|point (F p)|)%N by rewrite card_sig cardC1 -!subn1 leq_sub2r // t_least.
have [there|/pred0Pn [i0 /= /andP [i0L i0out]]] := boolP [disjoint counted c & absent]; last first.
  apply: le_trans (absent_is_noticed y i0L i0out) _; rewrite /chance.
  have d0 : (0 < d)%N by apply: leq_trans (d_most s0); apply: ltnW blinded.
  have tF : (t.-1 <= #|F p0|)%N by apply: leq_trans (leq_pred t) (t_least p0).
  rewrite -subr_ge0 -mulNr addf_div ?pnatr_eq0 -?lt0n //; last exact: leq_trans tF.
  rewrite divr_ge0 ?mulr_ge0 ?ler0n // mulNr mul1r subr_ge0 -natrM ler_nat.
  by apply: leq_trans tF _; rewrite leq_pmull.
move: wrong; rewrite /right there /= => /forallPn [p /forallPn [s wrong]].
pose e : pred (point (F p)) := [pred b | (polynomial c p s).[val b] == (H (w p) (y p) (counted c) s).[val b]].
apply: (@le_trans _ _ (Pr [pred a : keys | e (a.1 p)])).
  by apply: Pr_le => a /=; rewrite acceptsE // => /forallP/(_ p)/forallP/(_ s).
apply: le_trans (@Pr_first _ _ [pred a : points | e (a p)]) _.
apply: le_trans (@Pr_coordinate P (fun p => point (F p)) p e) _; apply: Pr_bound => //.
apply: leq_mul => //; apply: leq_trans (d_most s).
by apply: wrong_passes_rarely wrong; apply: size_interpolated.
Qed.

(** * The theorem *)
Variable m : nat.                                               (* the least group: min_parties; 1 with a helper *)
Hypothesis m_positive : (0 < m)%N.
Variable aggregator : secrets -> seq bool -> result.

Definition fooled : nat -> keys -> secrets -> bool :=
  @fooled I [the finType of 'I_1] keys secrets secrets (fun a => sent a.1) result (fun=> ord0) evaluating accepts
    right (fun=> m) aggregator.

Theorem soundness (tries : nat) :
  Pr [pred ax : keys * secrets | fooled tries ax.1 ax.2] <= (#|I| %/ m * d)%:R / t.-1%:R.
Proof.
rewrite natrM -mulrA -/chance.
have := @fooled_rarely I [the finType of 'I_1] keys secrets secrets (fun a => sent a.1) (fun a => unsent a.1) sentK
  unsentK result
  (fun=> ord0) evaluating accepts right (fun=> m) (fun=> m_positive) aggregator right_is_accepted (fun=> chance).
rewrite big_ord1; apply=> // [_|]; first by rewrite divr_ge0 ?ler0n.
exact: wrong_is_refused.
Qed.
End Session.

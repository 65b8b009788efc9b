(* The game that the aggregator plays: it sees what parties send, gives results to groups of parties, and learns each
   verdict before its next result. Whatever checks parties have, the chance that a wrong result passes is that of one
   result, times the number of groups. *)
From mathcomp Require Import all_ssreflect ssralg finalg zmodp poly ssrnum ssrint rat.
From Verified Require Import Chance.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Section Game.
Variables (I K : finType).                                      (* parties; kinds of results *)
Variables (A X Y : finType).                                    (* keys, other secrets, what is sent *)
Variables (send : A -> X -> Y) (unsend : A -> Y -> X).
Hypotheses (sendK : forall a, cancel (send a) (unsend a)) (unsendK : forall a, cancel (unsend a) (send a)).

Variable R : Type.                                              (* results that an aggregator can give *)
Variables (kind : R -> K) (evaluating : R -> {set I}).          (* which parties evaluate it: a group *)
Variable accepts : A -> X -> R -> bool.                         (* whether they accept it *)
Variable right : Y -> R -> bool.                                (* whether it is what was to be computed *)
Variable least : K -> nat.                                      (* parties of a group, at least *)
Hypothesis least_positive : forall k, (0 < least k)%N.

(* An aggregator sees all that is sent, and each verdict before its next result; the latest is the first in the list. *)
Variable aggregator : Y -> seq bool -> R.

(* A group evaluates a result if it has enough parties, and none of them evaluated one of this kind before. *)
Definition fresh (c : R) (before : {set I}) : bool :=
  (least (kind c) <= #|evaluating c|)%N && [disjoint evaluating c & before].
Fixpoint before (y : Y) (verdicts : seq bool) (k : K) : {set I} :=
  if verdicts is _ :: earlier then
    let c := aggregator y earlier in
    if (kind c == k) && fresh c (before y earlier (kind c)) then evaluating c :|: before y earlier k
    else before y earlier k
  else set0.
Definition evaluated (y : Y) (verdicts : seq bool) : bool :=
  let c := aggregator y verdicts in fresh c (before y verdicts (kind c)).

Fixpoint verdicts (a : A) (x : X) (tries : nat) : seq bool :=
  if tries is earlier.+1 then
    let y := send a x in let so_far := verdicts a x earlier in
    (evaluated y so_far && accepts a x (aggregator y so_far)) :: so_far
  else [::].

(* Among so many results one is evaluated and accepted though it is wrong. *)
Definition fooled (tries : nat) (a : A) (x : X) : bool :=
  let y := send a x in
  [exists n : 'I_tries, let v := verdicts a x n in
    [&& evaluated y v, accepts a x (aggregator y v) & ~~ right y (aggregator y v)]].

(** * The bound *)
Hypothesis right_is_accepted : forall a y c, right y c -> accepts a (unsend a y) c.
Variable chance : K -> rat.                                     (* of one wrong result, whatever was sent *)
Hypothesis chance_ge0 : forall k, 0 <= chance k.
Hypothesis wrong_is_refused : forall y c, ~~ right y c -> Pr [pred a | accepts a (unsend a y) c] <= chance (kind c).

(* What the verdicts are until a wrong result is accepted: they follow from what was sent alone. *)
Let foreseen (y : Y) : nat -> seq bool :=
  fix loop n := if n is n'.+1 then (evaluated y (loop n') && right y (aggregator y (loop n'))) :: loop n' else [::].

Lemma verdictsE (a : A) (x : X) (n : nat) : ~~ fooled n a x -> verdicts a x n = foreseen (send a x) n.
Proof.
elim: n => [|n IH] //= notyet; have unfooled : ~~ fooled n a x.
  by apply: contra notyet => /existsP [i bad]; apply/existsP; exists (widen_ord (leqnSn n) i).
rewrite -(IH unfooled); congr (_ :: _); case: (boolP (evaluated _ _)) => //= ev.
apply/idP/idP => [pass|]; last by move/(right_is_accepted a); rewrite sendK.
by apply: contraR notyet => wrong; apply/existsP; exists ord_max; rewrite /= ev pass.
Qed.

Let lie (y : Y) (n : nat) (a : A) : bool := let c := aggregator y (foreseen y n) in
  [&& evaluated y (foreseen y n), ~~ right y c & accepts a (unsend a y) c].

Lemma fooled_foreseen (tries : nat) (a : A) (x : X) : fooled tries a x -> [exists n : 'I_tries, lie (send a x) n a].
Proof.
move=> bad; have ex : exists n, (n < tries)%N && fooled n.+1 a x.
  by case: tries bad => [/existsP [[]]|n bad] //; exists n; rewrite leqnn.
have [n /andP [nt first] smallest] := ex_minnP ex; have {}bad := first.
have unfooled : ~~ fooled n a x.
  apply/negP => early; case: n early nt first smallest {bad} => [/existsP [[]]|n] // early nt _ smallest.
  by have := smallest n; rewrite early (ltn_trans _ nt) // ltnn => /(_ isT).
have /existsP [i /and3P [ev pass wrong]] := first.
have i_n : i = n :> nat.
  apply/eqP; rewrite eqn_leq -ltnS ltn_ord /= leqNgt; apply: contra unfooled => i_n.
  by apply/existsP; exists (Ordinal i_n); rewrite /= ev pass.
rewrite i_n (verdictsE unfooled) in ev pass wrong.
by apply/existsP; exists (Ordinal nt); rewrite /lie /= ev wrong sendK.
Qed.

Lemma groups (y : Y) (tries : nat) (k : K) :
  (\sum_(n < tries) (evaluated y (foreseen y n) && (kind (aggregator y (foreseen y n)) == k)) <= #|I| %/ least k)%N.
Proof.
rewrite leq_divRL // mulnC; apply: leq_trans (max_card (mem (before y (foreseen y tries) k))).
elim: tries => [|n IH]; first by rewrite big_ord0 muln0.
rewrite big_ord_recr /= mulnDr; set c := aggregator _ _; rewrite /evaluated -/c andbC.
have [ck|_] /= := eqVneq (kind c) k; last by rewrite muln0 addn0.
case: ifP => [/andP [many apart]|_]; last by rewrite muln0 addn0.
by rewrite ck in many apart; rewrite muln1 addnC cardsU (disjoint_setI0 apart) cards0 subn0 leq_add.
Qed.

Theorem fooled_rarely (tries : nat) :
  Pr [pred ax : A * X | fooled tries ax.1 ax.2] <= \sum_k (#|I| %/ least k)%:R * chance k.
Proof.
have sum_ge0 : 0 <= \sum_k (#|I| %/ least k)%:R * chance k by apply: sumr_ge0 => k _; rewrite mulr_ge0 ?ler0n.
apply: (le_trans (Pr_le (E' := [pred ax : A * X | [exists n : 'I_tries, lie (send ax.1 ax.2) n ax.1]]) _)).
  by move=> [a x] /=; apply: fooled_foreseen.
apply: (@Pr_by_view _ _ _ send (fun a y => [exists n : 'I_tries, lie y n a])) => // [a|y]; first by exists (unsend a).
apply: le_trans (Pr_any _) _; pose k n := kind (aggregator y (foreseen y n)).
apply: (@le_trans _ _ (\sum_(n < tries) \sum_j (evaluated y (foreseen y n) && (k n == j))%:R * chance j)).
  apply: ler_sum => n _; rewrite (bigD1 (k n)) //= eqxx andbT big1 ?addr0 => [|j /negbTE]; last first.
    by rewrite eq_sym => ->; rewrite andbF mul0r.
  rewrite /lie; case: (evaluated _ _) => /=; last by rewrite mul0r Pr_none // => a; rewrite !inE.
  rewrite mul1r; have [ok|wrong] := boolP (right y (aggregator y (foreseen y n))).
    by rewrite Pr_none ?chance_ge0 // => a; rewrite !inE ok.
  exact: wrong_is_refused.
rewrite exchange_big /=; apply: ler_sum => j _; rewrite -mulr_suml.
rewrite -subr_ge0 -mulrBl mulr_ge0 // subr_ge0 -natr_sum ler_nat; exact: groups.
Qed.
End Game.

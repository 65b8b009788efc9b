(* The game that the aggregator plays: it has parties submit, sees what they send, gives results to groups of parties,
   and learns each verdict, in whatever order it likes: who submits and who counts may hang on all that it has seen.
   Whatever checks parties have, the chance that a wrong result passes is that of one result, times the number of
   groups. *)
From mathcomp Require Import all_ssreflect ssralg finalg zmodp poly ssrnum ssrint rat.
From Verified Require Import Chance.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Section Game.
Variables (I K U : finType).                                    (* parties; kinds of results; submissions *)
Variables (A X Y : finType).                                    (* keys, other secrets, what all would send *)
Variables (send : A -> X -> Y) (unsend : A -> Y -> X).
Hypotheses (sendK : forall a, cancel (send a) (unsend a)) (unsendK : forall a, cancel (unsend a) (send a)).
Variable shown : {set U} -> Y -> Y.                             (* what these submissions show of it *)
Hypothesis shown_before : forall (D D' : {set U}) y, D' \subset D -> shown D' (shown D y) = shown D' y.

Variable R : Type.                                              (* results that an aggregator can give *)
Variables (kind : R -> K) (evaluating : R -> {set I}).          (* which parties evaluate it: a group *)
Variable counting : R -> {set U}.                               (* which submissions it says that it counts *)
Variable accepts : A -> X -> R -> bool.                         (* whether they accept it *)
Variable correct : Y -> R -> bool.                              (* whether it is what was to be computed of these *)
Variable least : K -> nat.                                      (* parties of a group, at least *)
Hypothesis least_positive : forall k, (0 < least k)%N.

(* In each turn the aggregator has a party submit, or gives a result. It sees all that has been sent, and each verdict,
   before its next turn; the latest is the first in the list. A turn without a result has the verdict false. *)
Variable aggregator : Y -> seq bool -> U + R.

Fixpoint submitted (y : Y) (verdicts : seq bool) : {set U} :=
  if verdicts is _ :: earlier then
    let D := submitted y earlier in if aggregator (shown D y) earlier is inl u then u |: D else D
  else set0.
Definition turn (y : Y) (verdicts : seq bool) : U + R := aggregator (shown (submitted y verdicts) y) verdicts.

(* A group evaluates a result if it has enough parties, and none of them evaluated one of this kind before. *)
Definition fresh (c : R) (before : {set I}) : bool :=
  (least (kind c) <= #|evaluating c|)%N && [disjoint evaluating c & before].
Fixpoint before (y : Y) (verdicts : seq bool) (k : K) : {set I} :=
  if verdicts is _ :: earlier then
    if turn y earlier is inr c then
      if (kind c == k) && fresh c (before y earlier (kind c)) then evaluating c :|: before y earlier k
      else before y earlier k
    else before y earlier k
  else set0.
Definition evaluated (y : Y) (verdicts : seq bool) : option R :=
  if turn y verdicts is inr c then if fresh c (before y verdicts (kind c)) then Some c else None else None.

Fixpoint verdicts (a : A) (x : X) (turns : nat) : seq bool :=
  if turns is earlier.+1 then
    let so_far := verdicts a x earlier in
    (if evaluated (send a x) so_far is Some c then accepts a x c else false) :: so_far
  else [::].

(* In so many turns one result is evaluated and accepted of which this is true, once these have submitted. *)
Definition some_accepted (E : {set U} -> R -> bool) (turns : nat) (a : A) (x : X) : bool :=
  [exists n : 'I_turns, let v := verdicts a x n in
    if evaluated (send a x) v is Some c then accepts a x c && E (submitted (send a x) v) c else false].

(* A result is right if all that it counts has been submitted, and it is correct. *)
Definition right (D : {set U}) (y : Y) (c : R) : bool := (counting c \subset D) && correct y c.
Definition fooled (turns : nat) (a : A) (x : X) : bool :=
  some_accepted (fun D c => ~~ right D (send a x) c) turns a x.

Lemma some_accepted_le (E E' : {set U} -> R -> bool) (turns : nat) (a : A) (x : X) :
  (forall D c, E D c -> E' D c) -> some_accepted E turns a x -> some_accepted E' turns a x.
Proof.
move=> sub /existsP [n /= found]; apply/existsP; exists n => /=.
by case: (evaluated _ _) found => // c /andP [-> /sub].
Qed.

(** * The bound *)
Hypothesis correct_shown : forall (D : {set U}) y c, counting c \subset D -> correct (shown D y) c = correct y c.
Hypothesis correct_is_accepted : forall a y c, correct y c -> accepts a (unsend a y) c.
Variable chance : K -> rat.                                     (* of one wrong result *)
Hypothesis chance_ge0 : forall k, 0 <= chance k.
(* Of one that is not correct, whatever was sent; and of one that counts what is still to be submitted, whatever else
   has been. *)
Hypothesis wrong_is_refused : forall y c, ~~ correct y c -> Pr [pred a | accepts a (unsend a y) c] <= chance (kind c).
Hypothesis unsent_is_noticed : forall a (D : {set U}) y c u, u \in counting c -> u \notin D ->
  Pr [pred y' | (shown D y' == shown D y) && accepts a (unsend a y') c]
    <= chance (kind c) * Pr [pred y' | shown D y' == shown D y].

(* What the verdicts are until a wrong result is accepted: they follow from what was sent alone. *)
Let foreseen (y : Y) : nat -> seq bool :=
  fix loop n := if n is n'.+1 then
    (if evaluated y (loop n') is Some c then right (submitted y (loop n')) y c else false) :: loop n' else [::].

Lemma verdictsE (a : A) (x : X) (n : nat) : ~~ fooled n a x -> verdicts a x n = foreseen (send a x) n.
Proof.
elim: n => [|n IH] //= notyet; have unfooled : ~~ fooled n a x.
  by apply: contra notyet => /existsP [i bad]; apply/existsP; exists (widen_ord (leqnSn n) i).
rewrite -(IH unfooled); congr (_ :: _); case ev : (evaluated _ _) => [c|] //.
apply/idP/idP => [pass|]; last by move=> /andP [_] /(correct_is_accepted a); rewrite sendK.
by apply: contraR notyet => wrong; apply/existsP; exists ord_max; rewrite /= ev pass.
Qed.

Let lie (n : nat) (a : A) (y : Y) : bool := let v := foreseen y n in
  if evaluated y v is Some c then ~~ right (submitted y v) y c && accepts a (unsend a y) c else false.

Lemma fooled_foreseen (turns : nat) (a : A) (x : X) : fooled turns a x -> [exists n : 'I_turns, lie n a (send a x)].
Proof.
move=> bad; have ex : exists n, (n < turns)%N && fooled n.+1 a x.
  by case: turns bad => [/existsP [[]]|n bad] //; exists n; rewrite leqnn.
have [n /andP [nt first] smallest] := ex_minnP ex; have {}bad := first.
have unfooled : ~~ fooled n a x.
  apply/negP => early; case: n early nt first smallest {bad} => [/existsP [[]]|n] // early nt _ smallest.
  by have := smallest n; rewrite early (ltn_trans _ nt) // ltnn => /(_ isT).
have /existsP [i /= found] := first.
have i_n : i = n :> nat.
  apply/eqP; rewrite eqn_leq -ltnS ltn_ord /= leqNgt; apply: contra unfooled => i_n.
  by apply/existsP; exists (Ordinal i_n).
rewrite i_n (verdictsE unfooled) in found.
apply/existsP; exists (Ordinal nt); rewrite /lie /=; case: (evaluated _ _) found => // c /andP [pass wrong].
by rewrite wrong sendK.
Qed.

Let worth (n : nat) (y : Y) : rat := if evaluated y (foreseen y n) is Some c then chance (kind c) else 0.

Lemma groups (y : Y) (turns : nat) (k : K) :
  (\sum_(n < turns) (if evaluated y (foreseen y n) is Some c then kind c == k else false) <= #|I| %/ least k)%N.
Proof.
rewrite leq_divRL // mulnC; apply: leq_trans (max_card (mem (before y (foreseen y turns) k))).
elim: turns => [|n IH]; first by rewrite big_ord0 muln0.
rewrite big_ord_recr /= mulnDr [evaluated _ (foreseen y n)]/evaluated.
case: (turn _ _) => [u|c] /=; first by rewrite muln0 addn0.
have [ck|ck] := eqVneq (kind c) k; last by case: ifP; rewrite ?(negbTE ck) muln0 addn0.
rewrite ck; case: ifP => [/andP [many apart]|_]; last by rewrite muln0 addn0.
by rewrite ck in many apart; rewrite ck eqxx muln1 addnC cardsU (disjoint_setI0 apart) cards0 subn0 leq_add.
Qed.

Lemma all_worth (y : Y) (turns : nat) : \sum_(n < turns) worth n y <= \sum_k (#|I| %/ least k)%:R * chance k.
Proof.
apply: (@le_trans _ _ (\sum_(n < turns) \sum_k
    (if evaluated y (foreseen y n) is Some c then kind c == k else false : nat)%:R * chance k)).
  apply: ler_sum => n _; rewrite /worth; case: (evaluated _ _) => [c|]; last by rewrite big1 // => k _; rewrite mul0r.
  by rewrite (bigD1 (kind c)) //= eqxx mul1r big1 ?addr0 // => k /negbTE; rewrite eq_sym => ->; rewrite mul0r.
rewrite exchange_big /=; apply: ler_sum => k _; rewrite -mulr_suml -natr_sum; apply: times_le => //.
by rewrite ler_nat groups.
Qed.

(** ** Whoever sees the same so far does the same *)
Section Alike.
Variables (y y' : Y).

Lemma submitted_more (b : bool) (v : seq bool) : submitted y v \subset submitted y (b :: v).
Proof. by rewrite /=; case: (aggregator _ _) => // u; apply: subsetUr. Qed.

Lemma alike_before (D D' : {set U}) : D' \subset D -> shown D y = shown D y' -> shown D' y = shown D' y'.
Proof. by move=> sub same; rewrite -(shown_before y sub) same shown_before. Qed.

Lemma alike_submitted (v : seq bool) :
  shown (submitted y v) y = shown (submitted y v) y' -> submitted y' v = submitted y v.
Proof.
elim: v => // b v IH same; have early := alike_before (submitted_more b v) same.
by rewrite /= (IH early) -early.
Qed.

Lemma alike_turn (v : seq bool) : shown (submitted y v) y = shown (submitted y v) y' -> turn y' v = turn y v.
Proof. by move=> same; rewrite /turn alike_submitted // same. Qed.

Lemma alike_evaluated (v : seq bool) :
  shown (submitted y v) y = shown (submitted y v) y' -> evaluated y' v = evaluated y v.
Proof.
move=> same; rewrite /evaluated alike_turn //; suff each k : before y' v k = before y v k.
  by case: (turn y v) => // c; rewrite each.
elim: v same k => // b v IH same k; have early := alike_before (submitted_more b v) same.
by rewrite /= alike_turn // (IH early); case: (turn y v) => // c; rewrite (IH early).
Qed.

Lemma alike_right (D : {set U}) (c : R) : shown D y = shown D y' -> right D y' c = right D y c.
Proof.
move=> same; rewrite /right; have [sub|] //= := boolP (counting c \subset D).
by rewrite -(correct_shown y' sub) -same correct_shown.
Qed.

Lemma alike_foreseen (n : nat) : let D := submitted y (foreseen y n) in
  shown D y = shown D y' -> foreseen y' n = foreseen y n.
Proof.
elim: n => // n IH /= same; have early := alike_before (submitted_more true (foreseen y n)) same.
by rewrite (IH early) alike_evaluated // alike_submitted //; case: (evaluated _ _) => // c; rewrite (alike_right c early).
Qed.
End Alike.

Let view (n : nat) (y : Y) : {set U} * Y := let D := submitted y (foreseen y n) in (D, shown D y).

Lemma viewE (n : nat) (y y' : Y) :
  (view n y' == view n y) = (shown (submitted y (foreseen y n)) y' == shown (submitted y (foreseen y n)) y).
Proof.
apply/eqP/eqP => [[-> //]|same]; have {}same := esym same.
by rewrite /view (alike_foreseen same) (alike_submitted same) same.
Qed.

Lemma lies_rarely (n : nat) :
  Pr [pred ay : A * Y | lie n ay.1 ay.2] <= (\sum_(ay : A * Y) worth n ay.2) / #|[the finType of (A * Y)%type]|%:R.
Proof.
apply: (@Pr_by_parts _ _ (fun ay => view n ay.2) _ (fun ay => worth n ay.2)) => [[a y] [a' y'] /= same|[a0 y]].
  have /eqP := esym same; rewrite viewE => /eqP/esym same_shown.
  by rewrite /worth (alike_foreseen same_shown) (alike_evaluated same_shown).
rewrite [worth n _]/worth /=; set v := foreseen y n; set D := submitted y v.
have alike y' : view n y' == view n y -> [/\ foreseen y' n = v, submitted y' v = D, evaluated y' v = evaluated y v &
    forall c, right D y' c = right D y c].
  rewrite viewE => /eqP/esym same; rewrite (alike_foreseen same) (alike_submitted same) (alike_evaluated same).
  by split=> // c; apply: alike_right.
case ev : (evaluated y v) => [c|]; last first.
  rewrite mul0r Pr_none // => -[a y'] /=; apply/negP => /andP [/alike [fy _ same _]].
  by rewrite /lie fy same ev.
have [ok|wrong] := boolP (right D y c).
  rewrite Pr_none => [|[a y'] /=]; first by rewrite mulr_ge0 ?Pr_ge0.
  by apply/negP => /andP [/alike [fy sy same ry]]; rewrite /lie fy same ev sy ry ok.
pose B := [pred y' | shown D y' == shown D y].
apply: (@le_trans _ _ (Pr [pred ay : A * Y | B ay.2 && (~~ right D ay.2 c && accepts ay.1 (unsend ay.1 ay.2) c)])).
  apply: Pr_le => -[a y'] /= /andP [same]; have [fy sy evy ry] := alike _ same.
  by rewrite viewE in same; rewrite same /lie fy evy ev sy.
have -> : Pr [pred ay : A * Y | view n ay.2 == view n y] = Pr [pred ay : A * Y | B ay.2].
  by congr (_%:R / _); apply: eq_card => -[a y']; rewrite !inE /= viewE.
have [sub|/subsetPn [u uc uD]] := boolP (counting c \subset D).
  rewrite -Pr_swap -[X in _ <= _ * X]Pr_swap.
  rewrite (Pr_mean (fun y' => [pred a | B y' && (~~ right D y' c && accepts a (unsend a y') c)])).
  rewrite (Pr_mean (fun y' => [pred a : A | B y'])) mulrA; apply: times_le; rewrite ?invr_ge0 ?ler0n //.
  rewrite mulr_sumr; apply: ler_sum => y' _; have [By'|] := boolP (B y'); last first.
    move=> /negbTE notB; rewrite !Pr_none ?mulr0 // => a; by rewrite /= notB.
  have [ok|] := boolP (right D y' c); first by rewrite Pr_none => [|a /=]; [apply: mulr_ge0 (Pr_ge0 _) | rewrite ?andbF].
  rewrite /right sub /= => no; have [A0|A0] := posnP #|A|.
    rewrite Pr_none => [|a]; first by apply: mulr_ge0 (Pr_ge0 _).
    by have /card0_eq/(_ a) := A0; rewrite inE.
  have -> : Pr [pred a : A | true] = 1 by rewrite /Pr divff // pnatr_eq0 -lt0n.
  by rewrite mulr1; apply: wrong_is_refused.
rewrite (Pr_mean (fun a => [pred y' | B y' && (~~ right D y' c && accepts a (unsend a y') c)])).
rewrite (Pr_mean (fun _ : A => B)) mulrA; apply: times_le; rewrite ?invr_ge0 ?ler0n //.
rewrite mulr_sumr; apply: ler_sum => a _; apply: le_trans (unsent_is_noticed a y uc uD); apply: Pr_le => y' /=.
by case/and3P => -> _ ->.
Qed.

Theorem fooled_rarely (turns : nat) :
  Pr [pred ax : A * X | fooled turns ax.1 ax.2] <= \sum_k (#|I| %/ least k)%:R * chance k.
Proof.
pose sent (ax : A * X) := (ax.1, send ax.1 ax.2).
apply: (@le_trans _ _ (Pr [pred ax | [exists n : 'I_turns, lie n (sent ax).1 (sent ax).2]])).
  by apply: Pr_le => -[a x] /=; apply: fooled_foreseen.
rewrite (@Pr_bij _ _ sent [pred ay | [exists n : 'I_turns, lie n ay.1 ay.2]]); last first.
  by exists (fun ay => (ay.1, unsend ay.1 ay.2)) => -[a z]; rewrite /sent /= ?sendK ?unsendK.
apply: le_trans (Pr_any (fun n : 'I_turns => [pred ay : A * Y | lie n ay.1 ay.2])) _.
apply: (@le_trans _ _ ((\sum_(ay : A * Y) \sum_(n < turns) worth n ay.2) / #|[the finType of (A * Y)%type]|%:R)).
  rewrite exchange_big mulr_suml; apply: ler_sum => n _; exact: lies_rarely.
apply: mean_le => [|ay]; last exact: all_worth.
by apply: sumr_ge0 => k _; rewrite mulr_ge0 ?ler0n.
Qed.
End Game.

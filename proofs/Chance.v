(* Chance: how many of equally likely choices there are. *)
From mathcomp Require Import all_ssreflect ssralg finalg zmodp poly ssrnum ssrint rat.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Definition Pr (T : finType) (E : pred T) : rat := #|E|%:R / #|T|%:R.

Lemma Pr_ge0 (T : finType) (E : pred T) : 0 <= Pr E.
Proof. by rewrite divr_ge0 ?ler0n. Qed.

Lemma Pr_le1 (T : finType) (E : pred T) : Pr E <= 1.
Proof.
rewrite /Pr; have [->|T0] := posnP #|T|; first by rewrite invr0 mulr0.
by rewrite -subr_ge0 -[X in X - _](@divff _ #|T|%:R) ?pnatr_eq0 -?lt0n // -mulrBl divr_ge0 ?ler0n // subr_ge0 ler_nat
  max_card.
Qed.

Lemma Pr_le (T : finType) (E E' : pred T) : (forall x, E x -> E' x) -> Pr E <= Pr E'.
Proof.
move=> sub; rewrite /Pr -subr_ge0 -mulrBl mulr_ge0 ?invr_ge0 ?ler0n // subr_ge0 ler_nat.
exact/subset_leq_card/subsetP.
Qed.

Lemma Pr_none (T : finType) (E : pred T) : (forall x, ~~ E x) -> Pr E = 0.
Proof. by move=> no; rewrite /Pr (_ : #|E| = 0%N) ?mul0r //; apply: eq_card0 => x; exact/negbTE/no. Qed.

(* A bound b/N on the chance, from a count. *)
Lemma Pr_bound (T : finType) (E : pred T) (b N : nat) : (0 < N)%N -> (#|E| * N <= b * #|T|)%N -> Pr E <= b%:R / N%:R.
Proof.
move=> N0 count; rewrite /Pr; have [->|T0] := posnP #|T|; first by rewrite invr0 mulr0 divr_ge0 ?ler0n.
rewrite -subr_ge0 -mulNr addf_div ?pnatr_eq0 -?lt0n // divr_ge0 ?mulr_ge0 ?ler0n //.
by rewrite mulNr subr_ge0 -!natrM ler_nat.
Qed.

Lemma Pr_bij (T T' : finType) (f : T -> T') (E : pred T') : bijective f -> Pr [pred x | E (f x)] = Pr E.
Proof.
move=> bij; rewrite /Pr (bij_eq_card bij); congr (_%:R / _); rewrite -(card_image (bij_inj bij)).
have [g gK Kg] := bij; apply: eq_card => y; apply/imageP/idP => [[x Ex ->] //|Ey]; exists (g y); rewrite ?Kg //.
by rewrite inE /= Kg.
Qed.

Lemma times_le (a b c : rat) : 0 <= c -> a <= b -> a * c <= b * c.
Proof. by move=> c0 ab; rewrite -subr_ge0 -mulrBl mulr_ge0 // subr_ge0. Qed.

Lemma PrE (T : finType) (E : pred T) : Pr E = (\sum_x (E x)%:R) / #|T|%:R.
Proof.
rewrite /Pr -sum1_card natr_sum big_mkcond; congr (_ / _); apply: eq_bigr => x _.
by rewrite -[x \in E]/(E x); case: (E x).
Qed.

Lemma Pr_swap (T T' : finType) (E : pred (T * T')) : Pr [pred yx : T' * T | E (yx.2, yx.1)] = Pr E.
Proof. by apply: (@Pr_bij _ _ (fun yx : T' * T => (yx.2, yx.1))); exists (fun xy => (xy.2, xy.1)) => -[]. Qed.

Lemma mean_le (T : finType) (f : T -> rat) (b : rat) : 0 <= b -> (forall x, f x <= b) -> (\sum_x f x) / #|T|%:R <= b.
Proof.
move=> b0 each; have [->|T0] := posnP #|T|; first by rewrite invr0 mulr0.
have -> : b = (\sum_(x : T) b) / #|T|%:R by rewrite sumr_const -[b *+ _]mulr_natr mulfK // pnatr_eq0 -lt0n.
by apply: times_le; rewrite ?invr_ge0 ?ler0n // ler_sum.
Qed.

Lemma Pr_mean (T T' : finType) (E : T -> pred T') : Pr [pred xy : T * T' | E xy.1 xy.2] = (\sum_x Pr (E x)) / #|T|%:R.
Proof.
rewrite /Pr card_prod natrM invfM [_^-1 * _]mulrC mulrA -mulr_suml -natr_sum; congr (_%:R / _ / _).
rewrite -sum1_card -(pair_big_dep xpredT E (fun _ _ => 1%N)) /=; apply: eq_bigr => x _; exact: sum1_card.
Qed.

Lemma Pr_both (T T' : finType) (E : pred T) (E' : pred T') : Pr [pred xy : T * T' | E xy.1 && E' xy.2] = Pr E * Pr E'.
Proof. by rewrite /Pr mulrACA -invfM -!natrM card_prod -cardX. Qed.

(* Of a pair: what holds for each first half, holds. So an aggregator that draws coins does no better than one that
   does not: T are its coins, and b bounds the chance for each of them. *)
Lemma Pr_given (T T' : finType) (E : T -> pred T') (b : rat) : 0 <= b ->
  (forall x, Pr (E x) <= b) -> Pr [pred xy : T * T' | E xy.1 xy.2] <= b.
Proof. by move=> b0 each; rewrite Pr_mean mean_le. Qed.

Lemma Pr_first (T T' : finType) (E : pred T) : Pr [pred xy : T * T' | E xy.1] <= Pr E.
Proof. rewrite -Pr_swap; exact: (@Pr_given _ _ (fun _ => E)) (Pr_ge0 _) _. Qed.

Lemma Pr_second (T T' : finType) (E : pred T') : Pr [pred xy : T * T' | E xy.2] <= Pr E.
Proof. exact: (@Pr_given _ _ (fun _ => E)) (Pr_ge0 _) _. Qed.

(* What is bounded among the choices that show the same, for whatever they show, is bounded. *)
Lemma Pr_by_parts (T V : finType) (part : T -> V) (E : pred T) (b : T -> rat) :
  (forall x x', part x = part x' -> b x = b x') ->
  (forall x, Pr [pred x' | (part x' == part x) && E x'] <= b x * Pr [pred x' | part x' == part x]) ->
  Pr E <= (\sum_x b x) / #|T|%:R.
Proof.
move=> same each; rewrite PrE; apply: times_le; rewrite ?invr_ge0 ?ler0n //.
have apart (F : T -> rat) : \sum_x F x = \sum_v \sum_(x | part x == v) F x by rewrite (partition_big part xpredT).
rewrite !apart; apply: ler_sum => v _.
have [x0 x0v|none] := pickP (fun x => part x == v); last by rewrite !big_pred0.
have T0 : (#|T|%:R != 0 :> rat) by rewrite pnatr_eq0 -lt0n; apply/card_gt0P; exists x0.
rewrite [leRHS](eq_bigr (fun=> b x0)) => [|x /eqP xv]; last by apply: same; rewrite (eqP x0v).
rewrite sumr_const -mulr_natr; have := times_le (ler0n _ #|T|) (each x0).
rewrite /Pr -mulrA !divfK // (eqP x0v) => /(le_trans _); apply.
rewrite -natr_sum ler_nat -sum1_card big_mkcondr /=; apply/eq_leq.
by apply: eq_bigr => x _; case: (E x).
Qed.

Lemma Pr_any (T : finType) (n : nat) (E : 'I_n -> pred T) :
  Pr [pred x | [exists k, E k x]] <= \sum_k Pr (E k).
Proof.
rewrite /Pr -mulr_suml -subr_ge0 -mulrBl mulr_ge0 ?invr_ge0 ?ler0n // -natr_sum subr_ge0 ler_nat.
rewrite -sum1_card (@leq_trans (\sum_(x | [exists k, E k x]) \sum_(k | E k x) 1)%N) //.
  by apply: leq_sum => x /existsP [k Ek]; rewrite (bigD1 k).
by rewrite (exchange_big_dep xpredT) //=; apply: leq_sum => k _; rewrite sum1_card; apply/subset_leq_card/subsetP => x
  /andP [].
Qed.

(* One entry of a tuple is uniform. *)
Lemma card_coordinate (P : finType) (B : P -> finType) (p0 : P) (R : pred (B p0)) :
  (#|[pred a : {dffun forall p, B p} | R (a p0)]| * #|B p0| = #|R| * #|{dffun forall p, B p}|)%N.
Proof.
pose fam p : pred (B p) := [pred b | (p != p0) || [exists r : B p0, (Tagged B b == Tagged B r) && R r]].
have fam0 : fam p0 =i R.
  move=> b; rewrite !inE eqxx /=; apply/existsP/idP => [[r /andP [/eqP br Rr]]|Rb]; last by exists b; rewrite eqxx.
  by move/eqP: br; rewrite eq_Tagged /= => /eqP ->.
have fold (h : P -> nat) : foldr muln 1%N [seq h p | p in P] = (\prod_p h p)%N by rewrite foldrE big_image.
have -> : (#|[pred a : {dffun forall p, B p} | R (a p0)]| = \prod_p #|fam p|)%N.
  rewrite -fold -card_family; apply: eq_card => a; rewrite inE; apply/idP/familyP => [Ra p|/(_ p0)]; last by rewrite
    fam0.
  by have [->|np] := eqVneq p p0; [rewrite fam0 | rewrite inE np].
rewrite card_dep_ffun fold (bigD1 p0) //= (eq_card fam0) [in RHS](bigD1 p0) //=.
rewrite -mulnA; congr (_ * _)%N; rewrite mulnC; congr (_ * _)%N; apply: eq_bigr => p np.
by apply: eq_card => b; rewrite !inE np.
Qed.

Lemma Pr_coordinate (P : finType) (B : P -> finType) (p0 : P) (R : pred (B p0)) :
  Pr [pred a : {dffun forall p, B p} | R (a p0)] <= Pr R.
Proof.
have [B0|B0] := posnP #|B p0|; last by apply: Pr_bound => //; rewrite card_coordinate.
rewrite Pr_none ?Pr_ge0 // => a; have := eq_refl (a p0); have /card0_eq/(_ (a p0)) := B0.
by rewrite inE.
Qed.

(* Among the choices in B, which so many shifts keep there: an event that each shift undoes but one. *)
Lemma Pr_one_among (T V : finType) (B E : pred T) (shift : V -> T -> T) : (0 < #|V|)%N ->
  (forall v, injective (shift v)) -> (forall v x, B (shift v x) = B x) ->
  (forall x v v', E (shift v x) -> E (shift v' x) -> v = v') ->
  Pr [pred x | B x && E x] <= 1 / #|V|%:R * Pr B.
Proof.
move=> V0 inj stay one; have V0' : (#|V|%:R != 0 :> rat) by rewrite pnatr_eq0 -lt0n.
have back v : #|[pred x | B x && E x]| = #|[pred x | B x && E (shift v x)]|.
  have [g gK Kg] := injF_bij (inj v).
  rewrite -(card_image (inj v) [pred x | B x && E (shift v x)]); apply: eq_card => y.
  apply/idP/imageP => [BEy|[x BEx ->]]; last by rewrite inE stay.
  by exists (g y); rewrite ?Kg // inE /= -(stay v) Kg.
rewrite /Pr mulrA; apply: times_le; rewrite ?invr_ge0 ?ler0n // -[leLHS](mulfK V0') mul1r [leRHS]mulrC.
apply: times_le; rewrite ?invr_ge0 ?ler0n // -natrM ler_nat mulnC -sum_nat_const -[leqRHS]sum1_card.
apply: (@leq_trans (\sum_(v : V) \sum_(x | B x && E (shift v x)) 1)%N).
  by apply: leq_sum => v _; rewrite (back v) -sum1_card.
rewrite (exchange_big_dep B) => [|v x _ /andP [] //] /=; apply: leq_sum => x Bx; rewrite sum1_card.
by apply/card_le1_eqP => v v'; rewrite !unfold_in => /andP [_ Ev] /andP [_ Ev']; apply/esym/(one x).
Qed.

Lemma Pr_one_of (T V : finType) (E : pred T) (shift : V -> T -> T) : (0 < #|V|)%N -> (forall v, injective (shift v)) ->
  (forall x v v', E (shift v x) -> E (shift v' x) -> v = v') -> Pr E <= 1 / #|V|%:R.
Proof.
move=> V0 inj one; apply: le_trans (Pr_one_among V0 inj (B := predT) _ one) _ => //.
by rewrite -[leRHS]mulr1 ![1 / _ * _]mulrC; apply: times_le; rewrite ?divr_ge0 ?ler0n ?Pr_le1.
Qed.

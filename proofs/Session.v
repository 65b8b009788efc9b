(* A session of several primes: whatever the aggregator does, a wrong result is accepted with a small chance. It chooses
   who submits, and when, and who counts, by what it has seen so far. *)
From mathcomp Require Import all_ssreflect ssralg finalg zmodp poly ssrnum ssrint rat.
From Verified Require Import Chance Sums Authenticators Game.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Section Session.
Variables (I P : finType) (J S : P -> finType).                 (* parties, primes; of each: entries, sums *)
Variable f : forall p, S p -> msum (J p).
Variable F : P -> finFieldType.                                 (* residues modulo each prime *)
Variable w : forall p, entries I (J p) (F p).                   (* the parties' sketches *)

Definition points : finType := [the finType of {dffun forall p, point (F p)}].
Definition secrets : finType := [the finType of {dffun forall p, secret I (@f p) (F p)}].
Definition sent (a : points) (x : secrets) : secrets := [ffun p => submit (a p) (w p) (x p)].
Definition unsent (a : points) (y : secrets) : secrets := [ffun p => recover (a p) (w p) (y p)].

(* What these parties have sent; nothing of the others. *)
Definition part (J S : finType) (f : S -> msum J) (F : finFieldType) (D : {set I}) (y : submission I f F) :
    submission I f F :=
  let: (w', mu, last) := y in
  ([ffun ij => if ij.1 \in D then w' ij else 0], [ffun ik => if ik.1 \in D then mu ik else 0],
   [ffun ib => if ib.1 \in D then last ib else 0]).
Definition shown (D : {set I}) (y : secrets) : secrets := [ffun p => part D (y p)].

(* What a group of parties evaluates: which parties these are (with the echo, those that count; with a helper, each one
   alone), which parties count, and for each prime and sum the values at 0 ... d that decrypt. *)
Record result := Result { evaluating : {set I}; counted : {set I}; decrypted : forall p, S p -> nat -> F p }.
Definition polynomial (c : result) (p : P) (s : S p) : {poly F p} := interpolated (degree (f s)) (decrypted c s).

Definition correct (y : secrets) (c : result) : bool :=
  [forall p, forall s, polynomial c s == H (w p) (y p) (counted c) s].
Definition accepts (a : points) (x : secrets) (c : result) : bool :=
  [forall p, forall s, (polynomial c s).[val (a p)] == expected (x p) (counted c) s].

(** * What the game needs to know of it *)
Lemma sentK (a : points) : cancel (sent a) (unsent a).
Proof. by move=> x; apply/ffunP => p; rewrite !ffunE submitK. Qed.
Lemma unsentK (a : points) : cancel (unsent a) (sent a).
Proof. by move=> y; apply/ffunP => p; rewrite !ffunE recoverK. Qed.

Lemma shown_before (D D' : {set I}) (y : secrets) : D' \subset D -> shown D' (shown D y) = shown D' y.
Proof.
move=> /subsetP sub; apply/ffunP => p; rewrite !ffunE; case: (y p) => [[w' mu] last].
congr (_, _, _); apply/ffunP => k; rewrite !ffunE ?inE; have := sub k.1;
  by case: (k.1 \in D'); case: (k.1 \in D) => // /(_ isT).
Qed.

Lemma H_part (p : P) (D L : {set I}) (y : submission I (@f p) (F p)) (s : S p) :
  L \subset D -> H (w p) (part D y) L s = H (w p) y L s.
Proof.
move=> /subsetP sub; case: y => [[w' mu] last]; rewrite /H /=; congr (_ + _).
  apply: eq_value => j; congr (_ + _ *: _); apply: eq_bigr => i /sub iD; by rewrite ffunE /= iD.
apply: eq_bigr => i /sub iD; congr (_ + _ *: _).
  by apply: eq_bigr => j _; rewrite ffunE /= iD.
by rewrite /of_sum; case: insubP => // b _ _; rewrite ffunE /= ?inE ?iD.
Qed.

Lemma correct_shown (D : {set I}) (y : secrets) (c : result) : counted c \subset D -> correct (shown D y) c = correct y c.
Proof. by move=> sub; apply: eq_forallb => p; apply: eq_forallb => s; rewrite ffunE H_part. Qed.

Lemma acceptsE (a : points) (y : secrets) (c : result) :
  accepts a (unsent a y) c =
  [forall p, forall s, (polynomial c s).[val (a p)] == (H (w p) (y p) (counted c) s).[val (a p)]].
Proof.
apply: eq_forallb => p; apply: eq_forallb => s; congr (_ == _); rewrite ffunE.
by rewrite -(@honest_passes _ _ _ _ _ (a p) (w p)) recoverK.
Qed.

Lemma correct_is_accepted (a : points) (y : secrets) (c : result) : correct y c -> accepts a (unsent a y) c.
Proof.
move=> /forallP ok; rewrite acceptsE; apply/forallP => p; apply/forallP => s.
by have /forallP/(_ s)/eqP -> := ok p.
Qed.

Variables (d t : nat).
Hypothesis d_most : forall p (s : S p), (degree (f s) <= d)%N.
Hypothesis t_least : forall p, (t <= #|F p|)%N.
Hypothesis t1 : (1 < t)%N.
Variables (p0 : P) (s0 : S p0).
Hypothesis blinded : (1 < degree (f s0))%N.                     (* some sum has degree two or more *)

Definition chance : rat := d%:R / t.-1%:R.

Lemma chance_ge0 : 0 <= chance. Proof. by rewrite divr_ge0 ?ler0n. Qed.

(* A party that is still to submit: its last blinder is anything, whatever else has been sent, and so is what is
   expected. *)
Lemma unsent_is_noticed (a : points) (D : {set I}) (y : secrets) (c : result) (i0 : I) :
  i0 \in counted c -> i0 \notin D ->
  Pr [pred y' | (shown D y' == shown D y) && accepts a (unsent a y') c]
    <= chance * Pr [pred y' | shown D y' == shown D y].
Proof.
move=> i0L i0D; pose b0 : {s : S p0 | (1 < degree (f s))%N} := Sub s0 blinded.
pose extra (v : F p0) p : lasts I (@f p) (F p) :=
  if p0 =P p is ReflectT e then ecast q (lasts I (@f q) (F q)) e [ffun ib => if ib == (i0, b0) then v else 0]
  else [ffun=> 0].
have extraE v : extra v p0 = [ffun ib => if ib == (i0, b0) then v else 0].
  by rewrite /extra; case: eqP => // e; rewrite eq_axiomK.
have extra0 v p ib : ib.1 \in D -> extra v p ib = 0.
  rewrite /extra; case: eqP => [e|_]; last by rewrite ffunE.
  by case: _ / e ib => ib; rewrite ffunE; case: eqP => // ->; rewrite /= (negbTE i0D).
pose shift (v : F p0) (y : secrets) : secrets :=
  [ffun p => let: (w', mu, last) := y p in (w', mu, [ffun ib => last ib + extra v p ib])].
have F0 : (0 < #|F p0|)%N by apply: leq_trans (ltnW t1) (t_least p0).
apply: (@le_trans _ _ (1 / #|F p0|%:R * Pr [pred y' | shown D y' == shown D y])); last first.
  apply: times_le; first exact: Pr_ge0.
  have t0 : (0 < t.-1)%N by rewrite -ltnS prednK // ltnW.
  rewrite /chance -subr_ge0 -mulNr addf_div ?pnatr_eq0 -?lt0n // divr_ge0 ?mulr_ge0 ?ler0n // mulNr mul1r subr_ge0.
  have d0 : (0 < d)%N by apply: leq_trans (d_most s0); apply: ltnW blinded.
  by rewrite -natrM ler_nat; apply: leq_trans (leq_trans (leq_pred t) (t_least p0)) _; rewrite leq_pmull.
apply: (@Pr_one_among _ _ [pred y' | shown D y' == shown D y] (fun y' => accepts a (unsent a y') c) shift) => //.
- move=> v z z' /ffunP same; apply/ffunP => p; have := same p; rewrite !ffunE.
  case: (z p) (z' p) => [[w' mu] last] [[w'' mu'] last'] [-> -> /ffunP lasts]; congr (_, _, _); apply/ffunP => ib.
  by have := lasts ib; rewrite !ffunE => /addIr.
- move=> v z /=; congr (_ == _); apply/ffunP => p; rewrite !ffunE; case: (z p) => [[w' mu] last].
  by congr (_, _, _); apply/ffunP => ib; rewrite !ffunE; case: ifP => // ibD; rewrite extra0 // addr0.
move=> z v v'; rewrite !acceptsE => /forallP one /forallP other.
have /forallP/(_ s0)/eqP := one p0; have /forallP/(_ s0)/eqP -> := other p0; rewrite !ffunE.
have moved u : H (w p0) (let: (w', mu, last) := z p0 in (w', mu, [ffun ib => last ib + extra u p0 ib])) (counted c) s0
    = H (w p0) (z p0) (counted c) s0 + u *: 'X^(degree (f s0)).
  case: (z p0) => [[w' mu] last]; rewrite extraE /H -addrA; congr (_ + _).
  rewrite (bigD1 i0) //= [in RHS](bigD1 i0) //= [RHS]addrAC; congr (_ + _).
    rewrite /of_sum; case: insubP => [b _ bs|]; last by rewrite blinded.
    have -> : b = b0 by apply: val_inj.
    by rewrite !ffunE eqxx scalerDl addrA.
  apply: eq_bigr => i /andP [_ ii0]; congr (_ + _ *: _); rewrite /of_sum; case: insubP => // b _ _; rewrite !ffunE.
  by rewrite xpair_eqE (negbTE ii0) addr0.
rewrite !moved !hornerD !hornerZ !hornerXn => /addrI/mulIf -> //; exact: expf_neq0 (point_neq0 _).
Qed.

Lemma wrong_is_refused (y : secrets) (c : result) :
  ~~ correct y c -> Pr [pred a : points | accepts a (unsent a y) c] <= chance.
Proof.
move=> /forallPn [p /forallPn [s wrong]]; have t0 : (0 < t.-1)%N by rewrite -ltnS prednK // ltnW.
have F1 : (t.-1 <= #|point (F p)|)%N by rewrite card_sig cardC1 -!subn1 leq_sub2r // t_least.
pose e : pred (point (F p)) := [pred b | (polynomial c s).[val b] == (H (w p) (y p) (counted c) s).[val b]].
apply: (@le_trans _ _ (Pr [pred a : points | e (a p)])).
  by apply: Pr_le => a /=; rewrite acceptsE => /forallP/(_ p)/forallP/(_ s).
apply: le_trans (@Pr_coordinate P (fun p => point (F p)) p e) _; apply: Pr_bound => //.
apply: leq_mul => //; apply: leq_trans (d_most s).
by apply: wrong_passes_rarely wrong; apply: size_interpolated.
Qed.

(** * The theorem *)
Variable m : nat.                                               (* the least group: min_parties; 1 with a helper *)
Hypothesis m_positive : (0 < m)%N.
Variable aggregator : secrets -> seq bool -> I + result.

Definition fooled : nat -> points -> secrets -> bool :=
  Game.fooled sent shown (fun=> ord0 : 'I_1) evaluating counted accepts correct (fun=> m) aggregator.

Theorem soundness (turns : nat) :
  Pr [pred ax : points * secrets | fooled turns ax.1 ax.2] <= (#|I| %/ m * d)%:R / t.-1%:R.
Proof.
rewrite natrM -mulrA -/chance.
have := @fooled_rarely I [the finType of 'I_1] I points secrets secrets sent unsent sentK unsentK shown shown_before
  result (fun=> ord0) evaluating counted accepts correct (fun=> m) (fun=> m_positive) aggregator correct_shown
  correct_is_accepted (fun=> chance) (fun=> chance_ge0) wrong_is_refused unsent_is_noticed turns.
by rewrite big_ord1.
Qed.
End Session.

(* What parties learn: of a sum its value, and nothing else; and shares that telescope are independent. *)
From mathcomp Require Import all_ssreflect ssralg finalg zmodp poly ssrnum ssrint rat.
From Verified Require Import Sums Authenticators.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import GRing.Theory.
Local Open Scope ring_scope.

(** * What parties decrypt is uniform but for what they may know *)
Section Hidden.
Variables (I J S : finType) (f : S -> msum J) (F : finFieldType).
Local Notation d s := (degree (f s)).
Local Notation slot := {s : S & 'I_(d s).-1}.

(* One party's blinders in place of what they were. *)
Definition replaced (mu : frees I f F) (i0 : I) (own : {ffun slot -> F}) : frees I f F :=
  [ffun ik => if ik.1 == i0 then own ik.2 else mu ik].

Lemma only_top (d : nat) (p : {poly F}) (a : F) :
  (size p <= d.+1)%N -> (forall k, (k < d)%N -> p`_k = 0) -> a != 0 -> p.[a] = 0 -> p = 0.
Proof.
move=> sp low a0; rewrite (horner_coef_wide _ sp) big_ord_recr /= big1 ?add0r => [top|k _]; last by rewrite low //
  mul0r.
apply/polyP => k; rewrite coef0; case: (ltngtP k d) => [/low //|dk|->]; first by rewrite nth_default // (leq_trans sp).
by apply/eqP; move/eqP: top; rewrite mulf_eq0 expf_eq0 (negbTE a0) andbF orbF.
Qed.

Lemma coef_blinders (mu : frees I f F) (i : I) (s : S) (j : 'I_(d s).-1) :
  (blinders mu i s)`_j.+1 = mu (i, Tagged (fun s => 'I_(d s).-1) j).
Proof.
rewrite coef_sum (bigD1 j) //= coefZ coefXn eqxx mulr1 big1 ?addr0 // => k kj.
by rewrite coefZ coefXn eqSS (inj_eq val_inj) eq_sym (negbTE kj) mulr0.
Qed.

Variables (alpha : point F) (w rho : entries I J F) (mu : frees I f F) (u : lasts I f F) (L : {set I}) (i0 : I).
Hypothesis i0L : i0 \in L.
Let result (own : {ffun slot -> F}) (s : S) : {poly F} := H w (submit alpha w (rho, replaced mu i0 own, u)) L s.

(* Each polynomial that has the right values at 0 and at alpha comes of one choice of any one party's blinders. *)
Theorem result_is_uniform (n : S -> {poly F}) :
  (forall s, size (n s) <= (d s).+1)%N ->
  (forall s, (n s).[0] = value (f s) (pooled L w)) ->
  (forall s, (n s).[val alpha] = expected (rho, mu, u) L s) ->
  exists! own : {ffun slot -> F}, forall s, result own s = n s.
Proof.
move=> sz at0 ata.
pose rest s (j : 'I_(d s).-1) := (result [ffun=> 0] s)`_j.+1.
have coef own s (j : 'I_(d s).-1) : (result own s)`_j.+1 = rest s j + own (Tagged (fun s => 'I_(d s).-1) j).
  rewrite /rest /result /H /submit !coefD -addrA; congr (_ + _); rewrite !coef_sum (bigD1 i0) // [in RHS](bigD1 i0) //=.
  have jd : (j.+1 < d s)%N by rewrite -ltn_predRL.
  rewrite !coefD !coef_blinders !ffunE !eqxx !coefZ !coefXn (ltn_eqF jd) !mulr0 !addr0 add0r addrC; congr (_ + _);
    apply: eq_bigr => i /andP [_ /negbTE ii0].
  by rewrite !coefD !coef_blinders !ffunE ii0 !coefZ !coefXn (ltn_eqF jd) !mulr0.
pose own : {ffun slot -> F} := [ffun k : slot => (n (tag k))`_(tagged k).+1 - rest (tag k) (tagged k)].
exists own; split=> [s|own' same]; last first.
  by apply/ffunP => -[s j]; rewrite ffunE /= -same (coef own' s j) addrC addKr.
apply/eqP; rewrite -subr_eq0; apply/eqP; apply: (@only_top (d s) _ (val alpha)) (point_neq0 alpha) _.
- by apply: size_plus; rewrite ?size_opp ?sz // size_H.
- case=> [|k] kd; first by rewrite -horner_coef0 hornerD hornerN at0 honest_is_right subrr.
  have kd' : (k < (d s).-1)%N by rewrite ltn_predRL.
  by rewrite coefD coefN (coef own s (Ordinal kd')) ffunE /= [_ + (_ - _)]addrC subrK subrr.
- by rewrite hornerD hornerN ata honest_passes subrr.
Qed.
End Hidden.

(** * Shares g_i - g_(i+1) are independent and uniform, and those of neighbours add up to one difference *)
Section Shares.
Variables (V : finZmodType) (K : nat).
Definition shares (g : {ffun 'I_K.+1 -> V}) : {ffun 'I_K -> V} * V :=
  ([ffun i => g (widen_ord (leqnSn K) i) - g (lift ord0 i)], g ord_max).

Theorem shares_bijective : bijective shares.
Proof.
apply: inj_card_bij => [g g' [/ffunP same last]|]; last by rewrite card_prod !card_ffun !card_ord expnS mulnC.
apply/ffunP => i; move: {2}(K - i)%N (erefl (K - i)%N) => n; elim: n i => [|n IH] i iK.
  have -> : i = ord_max by apply/val_inj/eqP; rewrite eqn_leq -ltnS ltn_ord -subn_eq0 iK.
  exact: last.
have iltK : (i < K)%N by rewrite -subn_gt0 iK.
have := same (Ordinal iltK); rewrite !ffunE [g (lift _ _)]IH; last by rewrite /= subnS iK.
by move/addIr; congr (g _ = g' _); apply: val_inj.
Qed.

Theorem shares_add_up (g : nat -> V) (a b : nat) : (a <= b)%N -> \sum_(a <= i < b) (g i - g i.+1) = g a - g b.
Proof. by move=> ab; rewrite -opprB -telescope_sumr // -sumrN; apply: eq_bigr => i _; rewrite opprB. Qed.
End Shares.

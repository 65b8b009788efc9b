(* Sums of whole vectors (fhe_auc/sums/vector_sums.py): tags under common pads in the place of authenticators. *)
From mathcomp Require Import all_ssreflect ssralg finalg zmodp poly ssrnum ssrint rat.
From Verified Require Import Chance Sums Forms Authenticators Game Integers.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Section Vectors.
Variables (I J Q : finType) (F : finFieldType).                 (* parties, entries, tags (two), residues *)
Variable w : entries I J F.                                     (* the parties' vectors *)
Variable absent : {set I}.                                      (* parties that have not submitted *)

(** * What is secret, and what is sent *)
Local Notation weights := (weights J Q F).                      (* r *)
Local Notation tag := (@form_of J Q F).
Definition tag_pads : finType := [the finType of {ffun I * Q -> F}].
Definition pads : finType := [the finType of (entries I J F * tag_pads)%type].    (* k *)

(* Vector and tags under the common pads; the pads that a party has of its own are known to the aggregator here. *)
Definition tagged (r : weights) (k : pads) : pads :=
  ([ffun ij => w ij + k.1 ij], [ffun iq => tag r (fun j => w (iq.1, j)) iq.2 + k.2 iq]).
Definition untagged (r : weights) (y : pads) : pads :=
  ([ffun ij => y.1 ij - w ij], [ffun iq => y.2 iq - tag r (fun j => w (iq.1, j)) iq.2]).

(* Whoever has not submitted has a pad of its tags of which nothing was sent, as in Session.v. *)
Definition vector_keys : finType := [the finType of (weights * tag_pads)%type].
Definition own_pad (k apart : tag_pads) (i : I) (q : Q) : F := if i \in absent then apart (i, q) else k (i, q).

(* What some parties read: which these are, who counts, and the sums of what these have sent, as the aggregator says. *)
Record pool := Pool { reading : {set I}; named : {set I}; pool_entries : J -> F; pool_tags : Q -> F }.
Definition vector_read (k : pads) (c : pool) (j : J) : F := pool_entries c j - \sum_(i in named c) k.1 (i, j).
Definition vector_accepts (a : vector_keys) (k : pads) (c : pool) : bool :=
  [forall q, pool_tags c q - \sum_(i in named c) own_pad k.2 a.2 i q == tag a.1 (vector_read k c) q].
Definition vector_right (y : pads) (c : pool) : bool :=
  [&& [disjoint named c & absent], [forall j, pool_entries c j == pooled (named c) y.1 j] &
      [forall q, pool_tags c q == \sum_(i in named c) y.2 (i, q)]].

(** * What the game needs to know of it *)
Lemma taggedK (a : vector_keys) : cancel (tagged a.1) (untagged a.1).
Proof. by move=> [k k']; rewrite /tagged /untagged; congr (_, _); apply/ffunP => x; rewrite !ffunE /= addrC addKr. Qed.
Lemma untaggedK (a : vector_keys) : cancel (untagged a.1) (tagged a.1).
Proof. by move=> [k k']; rewrite /tagged /untagged; congr (_, _); apply/ffunP => x; rewrite !ffunE /= addrC subrK. Qed.

Lemma tag_sum (r : weights) (L : {set I}) (q : Q) :
  \sum_(i in L) tag r (fun j => w (i, j)) q = tag r (pooled L w) q.
Proof. by rewrite exchange_big; apply: eq_bigr => j _; rewrite mulr_sumr. Qed.

(* A party reads the right sums where the aggregator returns them. *)
Lemma read_right (r : weights) (y : pads) (c : pool) (j : J) :
  vector_read (untagged r y) c j = pooled (named c) w j + (pool_entries c j - pooled (named c) y.1 j).
Proof.
rewrite /vector_read /untagged /=; under eq_bigr do rewrite ffunE.
by rewrite sumrB opprB addrCA.
Qed.

(* Where all that are named have submitted, what is added to sums and tags decides alone. *)
Lemma vector_acceptsE (a : vector_keys) (y : pads) (c : pool) : [disjoint named c & absent] ->
  vector_accepts a (untagged a.1 y) c =
  [forall q, pool_tags c q - \sum_(i in named c) y.2 (i, q) ==
             tag a.1 (fun j => pool_entries c j - pooled (named c) y.1 j) q].
Proof.
move=> /disjointFr there; apply: eq_forallb => q.
rewrite (eq_form_of _ _ (read_right a.1 y c)) form_ofD.
have -> : \sum_(i in named c) own_pad (untagged a.1 y).2 a.2 i q
    = \sum_(i in named c) y.2 (i, q) - tag a.1 (pooled (named c) w) q.
  by rewrite -tag_sum -sumrB; apply: eq_bigr => i /there out; rewrite /own_pad out ffunE.
by rewrite opprB addrCA (inj_eq (addrI _)).
Qed.

Lemma vector_right_is_accepted (a : vector_keys) (y : pads) (c : pool) :
  vector_right y c -> vector_accepts a (untagged a.1 y) c.
Proof.
move=> /and3P [there /forallP entries /forallP tags]; rewrite vector_acceptsE //; apply/forallP => q.
by rewrite (eqP (tags q)) subrr eq_sym form_of0 // => j; rewrite (eqP (entries j)) subrr.
Qed.

Definition vector_chance : rat := 1 / (#|F| ^ #|Q|)%:R.

(* One choice of all tags' weights of an entry at most, or of all tags' pads of a party that has not submitted. *)
Lemma vector_wrong_is_refused (y : pads) (c : pool) :
  ~~ vector_right y c -> Pr [pred a | vector_accepts a (untagged a.1 y) c] <= vector_chance.
Proof.
have F0 : (0 < #|[the finType of {ffun Q -> F}]|)%N by apply/card_gt0P; exists [ffun=> 0].
rewrite /vector_chance -(card_ffun Q F).
have frac0 : 0 <= 1 / #|[the finType of {ffun Q -> F}]|%:R :> rat by rewrite divr_ge0 ?ler0n.
have [there|/pred0Pn [i0 /= /andP [i0L i0out]] _] := boolP [disjoint named c & absent]; last first.
  apply: (@Pr_given _ _ (fun r => [pred k' | vector_accepts (r, k') (untagged r y) c])) => // r.
  pose shift (v : [the finType of {ffun Q -> F}]) (k' : tag_pads) : tag_pads :=
    [ffun iq => k' iq + (if iq.1 == i0 then v iq.2 else 0)].
  apply: (@Pr_one_of _ _ _ shift) => // [v k k' /ffunP same|k' v v' /forallP one /forallP other].
    by apply/ffunP => iq; have := same iq; rewrite !ffunE => /addIr.
  have moved u q : \sum_(i in named c) own_pad (untagged r y).2 (shift u k') i q
      = \sum_(i in named c) own_pad (untagged r y).2 k' i q + u q.
    rewrite (bigD1 i0) //= [in RHS](bigD1 i0) //= addrAC; congr (_ + _); first by rewrite /own_pad i0out ffunE eqxx.
    by apply: eq_bigr => i /andP [_ /negbTE ii0]; rewrite /own_pad ffunE /= ii0 addr0.
  apply/ffunP => q; have := eqP (one q); have := eqP (other q); rewrite /= !moved => <- /addrI/oppr_inj.
  by move/addrI.
rewrite /vector_right there /=; have [/existsP [j0 j0w]|] := boolP [exists j, pool_entries c j != pooled (named c) y.1
  j].
  move=> _; pose e j := pool_entries c j - pooled (named c) y.1 j.
  have e0 : e j0 != 0 by rewrite subr_eq0.
  pose b q := pool_tags c q - \sum_(i in named c) y.2 (i, q).
  apply: (@le_trans _ _ (Pr [pred a : vector_keys | [forall q, b q == tag a.1 e q]])).
    by apply: Pr_le => a /=; rewrite vector_acceptsE.
  apply: le_trans (@Pr_first _ _ [pred r : weights | [forall q, b q == tag r e q]]) _.
  rewrite card_ffun -[#|Q|]cardsT; apply: le_trans (Pr_le _) (random_forms setT b e0) => r /forallP same.
  by apply/forall_inP => q _; rewrite eq_sym.
move=> /existsPn same; have entries j : pool_entries c j = pooled (named c) y.1 j by apply/eqP; have := same j;
  rewrite negbK.
have -> /= : [forall j, pool_entries c j == pooled (named c) y.1 j] by apply/forallP => j; rewrite entries.
move=> /forallPn [q tagsq]; rewrite Pr_none // => a /=; rewrite vector_acceptsE //; apply/forallPn; exists q.
by rewrite form_of0 ?subr_eq0 // => j; rewrite entries subrr.
Qed.
End Vectors.

(** * The theorem: what parties read are the exact sums of integers *)
Section Exact_vectors.
Variables (I J Q : finType) (t : nat) (m : nat).                (* parties, entries, tags; the prime; the least group *)
Hypotheses (t_prime : prime t) (t_large : (2 < t)%N) (m_positive : (0 < m)%N).
Local Notation modulus := (fun _ : 'I_1 => t).
Local Notation F := (field modulus ord0).
Variables (vector : I * J -> int) (absent : {set I}).
Hypothesis not_beyond : forall ij, `|vector ij| <= (t./2 %/ #|I|)%N%:Z.  (* what is submitted is no larger *)

Definition vector_residues : entries I J F := [ffun ij => (vector ij)%:~R].
Definition vector_integer (k : pads I J Q F) (c : pool I J Q F) (j : J) : int :=
  read (around_zero modulus) (fun p : 'I_1 => vector_read k c j : field modulus p).
Definition vector_exact (L : {set I}) (j : J) : int := \sum_(i in L) vector (i, j).
Definition vector_misled (k : pads I J Q F) (c : pool I J Q F) : bool :=
  [exists j, vector_integer k c j != vector_exact (named c) j] || ~~ [disjoint named c & absent].

Lemma T1 : T modulus = t. Proof. by rewrite /T big_ord1. Qed.

Lemma vector_range (L : {set I}) (j : J) : in_range modulus (around_zero modulus) (vector_exact L j).
Proof.
have odd_t : odd t by case: (even_prime t_prime) t_large => [->|].
apply: symmetric_range; rewrite T1 ?prime_gt0 //; have -> : (t.-1./2 = t./2)%N.
  by rewrite -[in RHS](prednK (prime_gt0 t_prime)) /= uphalf_half -subn1 oddB ?prime_gt0 // odd_t addbb.
apply: le_trans (ler_norm_sum _ _ _) _; rewrite big_mkcond; apply: (@le_trans _ _ (\sum_(i : I) (t./2 %/ #|I|)%N%:Z)).
  by apply: ler_sum => i _; case: ifP.
by rewrite sumr_const -mulr_natr natz -PoszM lez_nat leq_trunc_div.
Qed.

Lemma vector_misled_is_wrong (r : Forms.weights J Q F) (y : pads I J Q F) (c : pool I J Q F) :
  vector_misled (untagged vector_residues r y) c -> ~~ vector_right absent y c.
Proof.
apply: contraL => /and3P [there /forallP entries _]; rewrite /vector_misled there orbF negb_exists.
apply/forallP => j; rewrite negbK; apply/eqP; apply: read_unique (vector_range _ _) _ => // [p q _|p].
  by rewrite [p]ord1 [q]ord1.
rewrite read_right (eqP (entries j)) subrr addr0 /pooled rmorph_sum; apply: eq_bigr => i _.
by rewrite ffunE.
Qed.

(* An aggregator knows all vectors and each party's own pads, sees all that is sent, and every verdict. *)
Variable aggregator : pads I J Q F -> seq bool -> pool I J Q F.

Definition vector_deceived (tries : nat) (a : vector_keys I J Q F) (k : pads I J Q F) : bool :=
  let y := tagged vector_residues a.1 k in
  let verdicts := Game.verdicts (fun a => tagged vector_residues a.1) (fun=> ord0 : 'I_1) (@reading I J Q F)
    (vector_accepts absent)
    (fun=> m) aggregator a k in
  [exists n : 'I_tries, let c := aggregator y (verdicts n) in
    [&& Game.evaluated (fun=> ord0 : 'I_1) (@reading I J Q F) (fun=> m) aggregator y (verdicts n),
        vector_accepts absent a k c & vector_misled k c]].

Theorem verified_vectors (tries : nat) :
  Pr [pred ak : vector_keys I J Q F * pads I J Q F | vector_deceived tries ak.1 ak.2]
    <= (#|I| %/ m)%:R / (t ^ #|Q|)%:R.
Proof.
have := @fooled_rarely _ _ _ _ _ _ _ (@taggedK I J Q F vector_residues) (@untaggedK I J Q F vector_residues) _ (fun=>
  ord0 : 'I_1)
  (@reading I J Q F) _ (vector_right absent) (fun=> m) (fun=> m_positive) aggregator
  (@vector_right_is_accepted I J Q F vector_residues absent) (fun=> vector_chance Q F) _ (@vector_wrong_is_refused I J
    Q F vector_residues absent) tries.
rewrite big_ord1 /vector_chance card_Fp // => bound; apply: le_trans (Pr_le _) (le_trans (bound _) _).
- move=> [a k] /= /existsP [n /and3P [ev pass wrong]]; apply/existsP; exists n; rewrite /= ev pass.
  by apply: (@vector_misled_is_wrong a.1); rewrite taggedK.
- by move=> _; rewrite divr_ge0 ?ler0n.
by rewrite mul1r.
Qed.
End Exact_vectors.

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

(* What these parties have sent; nothing of the others. *)
Definition vector_shown (D : {set I}) (y : pads) : pads :=
  ([ffun ij => if ij.1 \in D then y.1 ij else 0], [ffun iq => if iq.1 \in D then y.2 iq else 0]).

(* What some parties read: which these are, who counts, and the sums of what these have sent, as the aggregator says. *)
Record pool := Pool { reading : {set I}; named : {set I}; pool_entries : J -> F; pool_tags : Q -> F }.
Definition vector_read (k : pads) (c : pool) (j : J) : F := pool_entries c j - \sum_(i in named c) k.1 (i, j).
Definition vector_accepts (r : weights) (k : pads) (c : pool) : bool :=
  [forall q, pool_tags c q - \sum_(i in named c) k.2 (i, q) == tag r (vector_read k c) q].
Definition vector_correct (y : pads) (c : pool) : bool :=
  [forall j, pool_entries c j == pooled (named c) y.1 j] &&
  [forall q, pool_tags c q == \sum_(i in named c) y.2 (i, q)].

(** * What the game needs to know of it *)
Lemma taggedK (r : weights) : cancel (tagged r) (untagged r).
Proof. by move=> [k k']; rewrite /tagged /untagged; congr (_, _); apply/ffunP => x; rewrite !ffunE /= addrC addKr. Qed.
Lemma untaggedK (r : weights) : cancel (untagged r) (tagged r).
Proof. by move=> [k k']; rewrite /tagged /untagged; congr (_, _); apply/ffunP => x; rewrite !ffunE /= addrC subrK. Qed.

Lemma vector_shown_before (D D' : {set I}) (y : pads) :
  D' \subset D -> vector_shown D' (vector_shown D y) = vector_shown D' y.
Proof.
move=> /subsetP sub; congr (_, _); apply/ffunP => k; rewrite !ffunE ?inE /=; have := sub k.1;
  by case: (k.1 \in D'); case: (k.1 \in D) => // /(_ isT).
Qed.

Lemma vector_correct_shown (D : {set I}) (y : pads) (c : pool) :
  named c \subset D -> vector_correct (vector_shown D y) c = vector_correct y c.
Proof.
move=> /subsetP sub; rewrite /vector_correct /pooled; congr (_ && _).
  by apply: eq_forallb => j; congr (_ == _); apply: eq_bigr => i /sub iD; rewrite ffunE iD.
by apply: eq_forallb => q; congr (_ == _); apply: eq_bigr => i /sub iD; rewrite ffunE ?inE ?iD.
Qed.

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

(* What is added to sums and tags decides alone. *)
Lemma vector_acceptsE (r : weights) (y : pads) (c : pool) : vector_accepts r (untagged r y) c =
  [forall q, pool_tags c q - \sum_(i in named c) y.2 (i, q) ==
             tag r (fun j => pool_entries c j - pooled (named c) y.1 j) q].
Proof.
apply: eq_forallb => q.
rewrite (eq_form_of _ _ (read_right r y c)) form_ofD.
have -> : \sum_(i in named c) (untagged r y).2 (i, q)
    = \sum_(i in named c) y.2 (i, q) - tag r (pooled (named c) w) q.
  by rewrite -tag_sum -sumrB; apply: eq_bigr => i _; rewrite ffunE.
by rewrite opprB addrCA (inj_eq (addrI _)).
Qed.

Lemma vector_correct_is_accepted (r : weights) (y : pads) (c : pool) :
  vector_correct y c -> vector_accepts r (untagged r y) c.
Proof.
move=> /andP [/forallP entries /forallP tags]; rewrite vector_acceptsE; apply/forallP => q.
by rewrite (eqP (tags q)) subrr eq_sym form_of0 // => j; rewrite (eqP (entries j)) subrr.
Qed.

Definition vector_chance : rat := 1 / (#|F| ^ #|Q|)%:R.

Lemma vector_chance_ge0 : 0 <= vector_chance. Proof. by rewrite divr_ge0 ?ler0n. Qed.

(* One choice of all tags' weights of an entry, at most. *)
Lemma vector_wrong_is_refused (y : pads) (c : pool) :
  ~~ vector_correct y c -> Pr [pred r | vector_accepts r (untagged r y) c] <= vector_chance.
Proof.
rewrite /vector_correct; have [/existsP [j0 j0w] _|] := boolP [exists j, pool_entries c j != pooled (named c) y.1 j].
  pose e j := pool_entries c j - pooled (named c) y.1 j.
  have e0 : e j0 != 0 by rewrite subr_eq0.
  pose b q := pool_tags c q - \sum_(i in named c) y.2 (i, q).
  rewrite /vector_chance -[#|Q|]cardsT; apply: le_trans (Pr_le _) (random_forms setT b e0) => r /=.
  by rewrite vector_acceptsE => /forallP same; apply/forall_inP => q _; rewrite eq_sym; apply: same.
move=> /existsPn same; have entries j : pool_entries c j = pooled (named c) y.1 j by apply/eqP; have := same j;
  rewrite negbK.
have -> /= : [forall j, pool_entries c j == pooled (named c) y.1 j] by apply/forallP => j; rewrite entries.
move=> /forallPn [q tagsq]; rewrite Pr_none ?vector_chance_ge0 // => r /=; rewrite vector_acceptsE; apply/forallPn.
by exists q; rewrite form_of0 ?subr_eq0 // => j; rewrite entries subrr.
Qed.

(* One choice of all tags' pads of a party that is still to submit, whatever else has been sent. *)
Lemma vector_unsent_is_noticed (r : weights) (D : {set I}) (y : pads) (c : pool) (i0 : I) :
  i0 \in named c -> i0 \notin D ->
  Pr [pred y' | (vector_shown D y' == vector_shown D y) && vector_accepts r (untagged r y') c]
    <= vector_chance * Pr [pred y' | vector_shown D y' == vector_shown D y].
Proof.
move=> i0L i0D; rewrite /vector_chance -(card_ffun Q F).
pose shift (v : [the finType of {ffun Q -> F}]) (y : pads) : pads :=
  (y.1, [ffun iq => y.2 iq + (if iq.1 == i0 then v iq.2 else 0)]).
apply: (@Pr_one_among _ _ [pred y' | vector_shown D y' == vector_shown D y]
  (fun y' => vector_accepts r (untagged r y') c) shift).
- by apply/card_gt0P; exists [ffun=> 0].
- move=> v [z1 z2] [z1' z2'] [/= -> /ffunP same]; congr (_, _); apply/ffunP => iq.
  by have := same iq; rewrite !ffunE => /addIr.
- move=> v z /=; congr (_ == _); rewrite /vector_shown; congr (_, _); apply/ffunP => iq; rewrite !ffunE /=.
  by case: ifP => // iqD; case: eqP iqD => [->|_ _]; rewrite ?(negbTE i0D) // addr0.
move=> z v v'; rewrite !vector_acceptsE => /forallP one /forallP other; apply/ffunP => q.
have moved u : \sum_(i in named c) (shift u z).2 (i, q) = \sum_(i in named c) z.2 (i, q) + u q.
  rewrite (bigD1 i0) //= [in RHS](bigD1 i0) //= addrAC ffunE eqxx; congr (_ + _).
  by apply: eq_bigr => i /andP [_ /negbTE ii0]; rewrite ffunE /= ii0 addr0.
by have := eqP (one q); have := eqP (other q); rewrite /= !moved => <- /addrI/oppr_inj/addrI.
Qed.
End Vectors.

(** * The theorem: what parties read are the exact sums of integers *)
Section Exact_vectors.
Variables (I J Q : finType) (t : nat) (m : nat).                (* parties, entries, tags; the prime; the least group *)
Hypotheses (t_prime : prime t) (t_large : (2 < t)%N) (m_positive : (0 < m)%N).
Local Notation modulus := (fun _ : 'I_1 => t).
Local Notation F := (field modulus ord0).
Variable vector : I * J -> int.
Hypothesis not_beyond : forall ij, `|vector ij| <= (t./2 %/ #|I|)%N%:Z.  (* what is submitted is no larger *)

Definition vector_residues : entries I J F := [ffun ij => (vector ij)%:~R].
Definition vector_integer (k : pads I J Q F) (c : pool I J Q F) (j : J) : int :=
  read (around_zero modulus) (fun p : 'I_1 => vector_read k c j : field modulus p).
Definition vector_exact (L : {set I}) (j : J) : int := \sum_(i in L) vector (i, j).
Definition vector_misled (D : {set I}) (k : pads I J Q F) (c : pool I J Q F) : bool :=
  [exists j, vector_integer k c j != vector_exact (named c) j] || ~~ (named c \subset D).

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

Lemma vector_misled_is_wrong (D : {set I}) (r : Forms.weights J Q F) (y : pads I J Q F) (c : pool I J Q F) :
  vector_misled D (untagged vector_residues r y) c -> ~~ right (@named I J Q F) (@vector_correct I J Q F) D y c.
Proof.
apply: contraL => /andP [there /andP [/forallP entries _]]; rewrite /vector_misled there orbF negb_exists.
apply/forallP => j; rewrite negbK; apply/eqP; apply: read_unique (vector_range _ _) _ => // [p q _|p].
  by rewrite [p]ord1 [q]ord1.
rewrite read_right (eqP (entries j)) subrr addr0 /pooled rmorph_sum; apply: eq_bigr => i _.
by rewrite ffunE.
Qed.

(* An aggregator knows all vectors and each party's own pads, sees all that has been sent, and every verdict. *)
Variable aggregator : pads I J Q F -> seq bool -> I + pool I J Q F.

Definition vector_deceived (turns : nat) (r : Forms.weights J Q F) (k : pads I J Q F) : bool :=
  Game.some_accepted (tagged vector_residues) (@vector_shown I J Q F) (fun=> ord0 : 'I_1) (@reading I J Q F)
    (@vector_accepts I J Q F) (fun=> m) aggregator (fun D => vector_misled D k) turns r k.

Theorem verified_vectors (turns : nat) :
  Pr [pred rk : Forms.weights J Q F * pads I J Q F | vector_deceived turns rk.1 rk.2]
    <= (#|I| %/ m)%:R / (t ^ #|Q|)%:R.
Proof.
have := @fooled_rarely _ _ _ _ _ _ _ _ (@taggedK I J Q F vector_residues) (@untaggedK I J Q F vector_residues)
  _ (@vector_shown_before I J Q F) _ (fun=> ord0 : 'I_1) (@reading I J Q F) (@named I J Q F) _
  (@vector_correct I J Q F) (fun=> m) (fun=> m_positive) aggregator (@vector_correct_shown I J Q F)
  (@vector_correct_is_accepted I J Q F vector_residues) (fun=> vector_chance Q F) (fun=> vector_chance_ge0 Q F)
  (@vector_wrong_is_refused I J Q F vector_residues) (@vector_unsent_is_noticed I J Q F vector_residues) turns.
rewrite big_ord1 /vector_chance card_Fp // => bound; apply: le_trans (Pr_le _) (le_trans bound _).
  move=> [r k] /=; apply: Game.some_accepted_le => D c wrong.
  by apply: (@vector_misled_is_wrong _ r); rewrite taggedK.
by rewrite mul1r.
Qed.
End Exact_vectors.

(* What is released: sums of products of linear forms of a sketch (fhe_auc/sums/terms.py). *)
From mathcomp Require Import all_ssreflect ssralg finalg zmodp poly ssrnum ssrint rat.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(** * What is summed *)
Section Sums.
Variable J : finType.                                           (* the entries of a sketch *)

Definition form : Type := J -> int.                             (* weights of the entries *)
Definition term : Type := int * seq form.                       (* a constant times a product of linear forms *)
Definition msum : Type := seq term.

Definition form_at (R : comRingType) (l : form) (x : J -> R) : R := \sum_j (l j)%:~R * x j.
Definition value (R : comRingType) (f : msum) (x : J -> R) : R :=
  \sum_(t <- f) t.1%:~R * \prod_(l <- t.2) form_at l x.
Definition degree (f : msum) : nat := \max_(t <- f) size t.2.

Lemma eq_value (R : comRingType) (f : msum) (x y : J -> R) : x =1 y -> value f x = value f y.
Proof.
move=> xy; apply: eq_bigr => t _; congr (_ * _); apply: eq_bigr => l _.
by apply: eq_bigr => j _; rewrite xy.
Qed.

Lemma value_morph (R R' : comRingType) (phi : {rmorphism R -> R'}) (f : msum) (x : J -> R) :
  phi (value f x) = value f (fun j => phi (x j)).
Proof.
rewrite /value rmorph_sum; apply: eq_bigr => t _; rewrite rmorphM rmorph_int rmorph_prod; congr (_ * _).
by apply: eq_bigr => l _; rewrite /form_at rmorph_sum; apply: eq_bigr => j _; rewrite rmorphM rmorph_int.
Qed.

Lemma horner_value (R : comRingType) (f : msum) (x : J -> {poly R}) (a : R) :
  (value f x).[a] = value f (fun j => (x j).[a]).
Proof. exact: (value_morph [the {rmorphism {poly R} -> R} of horner_eval a]). Qed.

Lemma size_plus (R : ringType) (p q : {poly R}) (n : nat) :
  (size p <= n -> size q <= n -> size (p + q)%R <= n)%N.
Proof.
move=> /leq_sizeP p0 /leq_sizeP q0; apply/leq_sizeP => i ni.
by rewrite coefD p0 ?q0 ?addr0.
Qed.

(* Of linear polynomials a sum of degree d makes a polynomial of degree d at most. *)
Lemma size_value (F : fieldType) (f : msum) (x : J -> {poly F}) :
  (forall j, size (x j) <= 2)%N -> (size (value f x) <= (degree f).+1)%N.
Proof.
have scaled n (p : {poly F}) : (size (n%:~R * p)%R <= size p)%N.
  by rewrite mulrzl -scaler_int size_scale_leq.
move=> x2; have form2 l : (size (form_at l x) <= 2)%N.
  apply: leq_trans (size_sum _ _ _) _; apply/bigmax_leqP => j _.
  exact: leq_trans (scaled _ _) (x2 j).
have prod_size ls : (size (\prod_(l <- ls) form_at l x)%R <= (size ls).+1)%N.
  elim: ls => [|l ls IH]; first by rewrite big_nil size_poly1.
  rewrite big_cons; apply: leq_trans (size_mul_leq _ _) _.
  by rewrite -ltnS; case: (size _ + size _)%N (leq_add (form2 l) IH).
elim: f => [|t f IH]; first by rewrite /value big_nil size_poly0.
rewrite /value /degree !big_cons; apply: size_plus.
  by apply: leq_trans (scaled _ _) (leq_trans (prod_size _) _); rewrite ltnS leq_maxl.
by apply: leq_trans IH _; rewrite ltnS leq_maxr.
Qed.
End Sums.

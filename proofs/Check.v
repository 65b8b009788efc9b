(* What each theorem rests on: make compares the answers with "Closed under the global context", so with no axiom. *)
From Verified Require Import Authenticators Session Integers Analysis Vectors Together Learned Inputs Example.
Print Assumptions honest_is_right.
Print Assumptions honest_passes.
Print Assumptions submit_bijective.
Print Assumptions submission_uniform.
Print Assumptions wrong_passes_rarely.
Print Assumptions wrong_passes_that_often.
Print Assumptions soundness.
Print Assumptions verified.
Print Assumptions verified_analysis.
Print Assumptions vector_right_is_accepted.
Print Assumptions verified_vectors.
Print Assumptions verified_together.
Print Assumptions result_is_uniform.
Print Assumptions shares_bijective.
Print Assumptions shares_add_up.
Print Assumptions few_weights_are_lucky.
Print Assumptions false_proof_passes_rarely.
Print Assumptions false_proofs_pass_rarely.
Print Assumptions false_equations_pass_rarely.
Print Assumptions equations_of_integers.
Print Assumptions instance.
Print Assumptions secrets_exist.
Print Assumptions vectors_instance.
Print Assumptions inputs_instance.

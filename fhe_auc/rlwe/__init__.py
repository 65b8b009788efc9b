"""What the schemes over rings of polynomials share, CKKS (`fhe_auc.ckks`) and BFV (`fhe_auc.bfv`) alike."""

# What riskRegression and survival say of the sets in a folder (tests/support/follow_up_sets.py).
suppressMessages({library(riskRegression); library(survival); library(prodlim)})
folder <- commandArgs(trailingOnly = TRUE)[1]
horizons <- list(veterans = c(80, 180), gbsg2 = c(730, 1460), whas500 = c(365, 1095), flchain = c(1825, 3650),
                 rossi = c(26, 45), competing = c(250, 500))
cat("set,horizon,auc1,auc2,error1,error2,known1,known2,difference_error,observed,brier,brier_error\n")
for (name in names(horizons)) {
  rows <- read.csv(file.path(folder, paste0(name, ".csv")))
  times <- horizons[[name]]
  risks <- lapply(list(first = rows$first, second = rows$second), function(each) matrix(each, nrow(rows), 2))
  outcome <- if (name == "competing") Hist(time, event) ~ 1 else Surv(time, event) ~ 1
  said <- function(conservative) Score(risks, outcome, data = rows, times = times, metrics = "AUC", cens.model = "km",
                                       se.fit = TRUE, conservative = conservative, null.model = FALSE)$AUC
  full <- said(FALSE); known <- said(TRUE)
  brier <- Score(risks[1], outcome, data = rows, times = times, metrics = "Brier", cens.model = "km",
                 null.model = FALSE)$Brier$score
  states <- if (name == "competing") factor(rows$event) else rows$event
  curve <- summary(survfit(Surv(rows$time, states) ~ 1), times = times)
  observed <- if (name == "competing") curve$pstate[, 2] else 1 - curve$surv
  for (at in 1:2) {
    pick <- function(from, column) as.data.frame(from)[[column]][from$times == times[at]]
    numbers <- c(pick(full$score, "AUC"), pick(full$score, "se"), pick(known$score, "se"),
                 pick(full$contrasts, "se"), observed[at],
                 pick(brier, "Brier"), pick(brier, "se"))
    cat(name, ",", times[at], ",", paste(formatC(numbers, digits = 12, format = "f"), collapse = ","), "\n", sep = "")
  }
}

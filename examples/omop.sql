-- One row for each patient of an OMOP common data model (5.4) whose risk was predicted, for
--   fhe-auc evaluate postgresql://reader@server/omop --query "$(cat omop.sql)" --label-column label \
--       --score-column score --site-column site --drop-missing
-- 1 and 2 are the cohorts of who is at risk and of the outcome, 365 is the horizon in days, table prediction is yours.
-- label: 1 with an outcome until the horizon, 0 without one, if observed until then, else none, and --drop-missing says
-- how many these are. Who had an outcome by the day of the prediction is left out.
-- PostgreSQL and DuckDB subtract dates. SQLite has text: sed -E 's/(\w+\.\w+) - (\w+\.\w+)/julianday(\1) - julianday(\2)/'
WITH days AS (
    SELECT
        target.subject_id,
        prediction.value AS score,
        (SELECT min(outcome.cohort_start_date - target.cohort_start_date)
         FROM cohort outcome
         WHERE outcome.cohort_definition_id = 2 AND outcome.subject_id = target.subject_id) AS to_outcome,
        (SELECT max(seen.observation_period_end_date - target.cohort_start_date)
         FROM observation_period seen
         WHERE seen.person_id = target.subject_id
             AND target.cohort_start_date BETWEEN seen.observation_period_start_date
             AND seen.observation_period_end_date) AS to_end
    FROM cohort target
    INNER JOIN prediction
        ON prediction.subject_id = target.subject_id AND prediction.cohort_start_date = target.cohort_start_date
    WHERE target.cohort_definition_id = 1
)
SELECT
    CASE WHEN days.to_outcome <= 365 THEN 1 WHEN days.to_end >= 365 THEN 0 END AS label,
    days.score,
    care_site.care_site_name AS site,
    days.subject_id AS patient
FROM days
INNER JOIN person ON person.person_id = days.subject_id
LEFT JOIN care_site ON care_site.care_site_id = person.care_site_id
WHERE days.to_outcome IS NULL OR days.to_outcome > 0

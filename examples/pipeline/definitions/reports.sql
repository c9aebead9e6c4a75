-- The third layer: who published how much, what of it can be trusted, and what could not be read.

CREATE MATERIALIZED VIEW authors AS
SELECT name, count(DISTINCT log_id) AS logs, count(*) AS entries,
       count_if(verdict = 'verified') AS verified, count_if(verdict = 'invalid') AS invalid
FROM named GROUP BY name;

CREATE MATERIALIZED VIEW logs AS
SELECT name, log_id, max(seqnum) AS newest, count_if(certified) AS certified,
       count_if(payload = 'mismatch') AS wrong_payloads, min(reason) AS reason
FROM named GROUP BY name, log_id;

CREATE MATERIALIZED VIEW unreadable AS
SELECT reason, count(*) AS times FROM entries WHERE reason IS NOT NULL GROUP BY reason;

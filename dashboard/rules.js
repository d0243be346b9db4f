'use strict';

// The table of rules, and what dry-run rules would do.

const columns = [
  { label: 'Checked', of: all },
  { label: 'Rejected', of: refused, hasShare: true },
  { label: 'Would reject', of: ['dry_run_rejected'], hasShare: true },
  { label: 'Delayed', of: ['delayed', 'local_delayed', 'dry_run_delayed'] },
  { label: 'Local', of: local },
  { label: 'No verdict', of: failed },
];

const ruleRows = new Map(); // of ids
const ruleSelection = new Selection('rules', 20);

function buildRule({ id, zone, name, counts }) {
  const series = outcomes.map((outcome) => outcome.name);
  const spark = new ChartLines(series, true, { class: 'spark', 'aria-hidden': 'true' });
  const cells = columns.map(({ label }) => {
    const [number, part] = [element('span'), element('small')];
    return { number, part, place: element('td', { class: 'number', 'data-label': label }, number, part) };
  });
  const inAll = element('td', { class: 'number', 'data-label': 'Rejected in all' });
  const title = element('th', { scope: 'row' }, name, element('small', {}, `${limitOf(counts)}, zone ${zone}`));
  const place = element('tr', {}, title, element('td', { class: 'drawing' }, spark.svg),
    ...cells.map((each) => each.place), inAll);
  ruleRows.set(id, { spark, cells, inAll, place });
}

function buildRules(rules) {
  ruleRows.clear();
  rules.forEach(buildRule);
}

function showRule({ id, counts, rates, history }, axis) {
  const { spark, cells, inAll } = ruleRows.get(id);
  spark.draw(axis, history);
  const checked = sum(rates, all);
  columns.forEach(({ of, hasShare }, i) => {
    const number = sum(rates, of);
    tell(cells[i].number, i > 0 && number === 0 ? '·' : rate(number));
    tell(cells[i].part, hasShare && number > 0 ? ` ${share(number, checked)}` : '');
  });
  cells[1].place.classList.toggle('much', sum(rates, refused) > 0);
  tell(inAll, count(sum(counts, refused)));
}

// Requests that are known to be denied are not asked about, so a dry run is not asked about the same requests
// as the rules in force.
function dryRunText({ zone, name, rates }, rules) {
  const reached = sum(rates, all);
  const would = [['reject', rates.dry_run_rejected], ['delay', rates.dry_run_delayed]]
    .filter(([, number]) => number > 0)
    .map(([verb, number]) => `${verb} ${rate(number)} /s (${share(number, reached)})`);
  const others = rules.filter((rule) => rule.zone === zone && !rule.isDryRun);
  const rejected = others.reduce((total, rule) => total + sum(rule.rates, refused), 0);
  const known = others.reduce((total, rule) => total + rule.rates.rejected_by_deny_cache, 0);
  const beside = others.length === 0 ? 'no rule of its zone is in force'
    : `the rules in force of its zone reject ${rate(rejected)} /s`
      + (known > 0 ? `, ${rate(known)} /s of them known denials that it is not asked about` : '');
  return `Dry run ${name} would ${would.join(' and ') || 'hold nothing back'} `
    + `of the ${rate(reached)} /s that reached it; ${beside}.`;
}

function settlementText({ name, counts, rates }) {
  const lost = counts.settlements.lost;
  return `Of the requests that ${name} let pass ${rate(rates.charged)} /s turned out to cost more than they had `
    + `reserved, and ${rate(rates.returned)} /s less${lost > 0 ? `; of ${count(lost)} in all Redis could not be told` : ''}.`;
}

function showNotes(place, texts) {
  arrange(place, texts.map((text, at) => place.children[at] ?? element('p')));
  texts.forEach((text, at) => tell(place.children[at], text));
}

// What is said below the table is of the rules in it.
function showRules(rules, axis) {
  const shown = ruleSelection.choose(rules, ({ zone, name }) => `${name} ${zone}`, troubleOfRule);
  arrange(byId('rules').tBodies[0], shown.map(({ id }) => ruleRows.get(id).place));
  shown.forEach((rule) => showRule(rule, axis));
  showNotes(byId('dry-runs'), shown.filter((rule) => rule.isDryRun).map((rule) => dryRunText(rule, rules)));
  showNotes(byId('settlements'), shown.filter(({ counts }) => sum(counts.settlements, settlements) > 0).map(settlementText));
}

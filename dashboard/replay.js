'use strict';

// What is in the page of a replay: a sentence, all rules side by side, and a section for each.

const replay = JSON.parse(byId('data').textContent);

function headline(rules) {
  const worst = rules.reduce((most, rule) => (rule.rejected > most.rejected ? rule : most), rules[0]);
  if (!worst || rules.every(({ requests }) => requests === 0)) return ['unknown', 'No request of the log comes to a rule'];
  const requests = ofRequests(worst.requests);
  if (worst.rejected > 0) {
    const most = rules.length > 1 ? `, most of the ${rules.length} rules` : '';
    return ['warning', `${worst.name} would have rejected ${percent(worst.rejected, worst.requests)} of ${requests}${most}`];
  }
  const delayed = rules.some((rule) => rule.delayed > 0) ? ', but delayed some' : '';
  return ['good', rules.length > 1 ? `None of the ${rules.length} rules would have rejected a request${delayed}`
    : `${worst.name} would have rejected none of ${requests}${delayed}`];
}

function linesText({ lines, skipped, ambiguous, without_request: withoutRequest, undecided, late }) {
  return [`${count(lines)} ${lines === 1 ? 'line' : 'lines'}`,
    ...(skipped > ambiguous ? [`${count(skipped - ambiguous)} of another format skipped`] : []),
    ...(ambiguous > 0 ? [`${count(ambiguous)} skipped that can be read in several ways`] : []),
    ...(withoutRequest > 0 ? [`${count(withoutRequest)} without a request`] : []),
    ...(undecided > 0 ? [`${count(undecided)} of requests on which no rule decided, left out`] : []),
    ...(late > 0 ? [`${count(late)} out of order by more than a minute`] : [])].join(', ');
}

function showHead({ rules, begin, end, estimates, notes, ...lines }) {
  const [state, text] = headline(rules);
  byId('health').className = state;
  tell(byId('health'), text);
  tell(byId('period'), end > 0 ? `${period(begin, end)}${end > begin ? `, ${duration(end - begin)}` : ''}` : 'no time');
  tell(byId('lines'), linesText(lines));
  byId('estimate').hidden = estimates.length === 0;
  byId('estimate').textContent = `An estimate: ${estimates.join(' ')}`;
  byId('notes').append(...notes.map((note) => element('li', {}, note)));
}

function settingsText({ algorithm, limit, capacity, window_ms: window, calendar }) {
  const isBucket = capacity !== null && String(capacity) !== limit;
  return `${limitOf({ algorithm, limit, window_seconds: window / 1000, calendar })}${isBucket ? `, ${count(capacity)} at once` : ''}`;
}

const about = ({ keys, keys_are_estimated: isEstimate }) => `${isEstimate ? 'about ' : ''}${count(keys)}`;

function overviewRow(rule, at) {
  const spark = new ChartLines(outcomes, true, { class: 'spark', 'aria-hidden': 'true' });
  spark.draw(stepAxis(rule.series.passed.length), outcomes.map((outcome) => stepped(rule.series[outcome])));
  const numbers = ['requests', ...outcomes].map((name) => {
    const part = name !== 'requests' && rule[name] > 0 ? element('small', {}, ` ${percent(rule[name], rule.requests)}`) : '';
    const isMuch = name === 'rejected' && rule[name] > 0;
    return element('td', { class: `number${isMuch ? ' much' : ''}`, 'data-label': name }, rule[name] > 0 ? count(rule[name]) : '·', part);
  });
  return element('tr', {},
    element('th', { scope: 'row' }, element('a', { href: `#rule-${at + 1}` }, rule.name), element('small', {}, settingsText(rule))),
    element('td', { class: 'drawing' }, spark.svg), ...numbers,
    element('td', { class: 'number', 'data-label': 'keys' }, about(rule)));
}

function tile(title, number, more, name = '') {
  return element('div', { class: `tile ${name}` }, element('h3', {}, title), element('p', {}, element('b', {}, number)),
    element('p', { class: 'more' }, more));
}

function section(rule, at) {
  const title = element('h2', {}, rule.name);
  const made = element('section', { id: `rule-${at + 1}`, class: 'rule', 'aria-label': rule.name },
    element('div', { class: 'heading' }, title, element('span', { class: 'unit mode' }, settingsText(rule))));
  if (rule.invalid > 0) {
    made.append(element('p', { class: 'message bad' }, `${ofRequests(rule.invalid)} had variables that were no numbers`));
  }
  if (rule.requests === 0) {
    made.append(element('p', { class: 'empty' }, 'No request of the log comes to this rule.'));
    return made;
  }
  const byOutcome = outcomes.map((name) => tile(name, count(rule[name]), percent(rule[name], rule.requests), name));
  // A limit of requests at a time has no window to count in.
  const peaks = rule.algorithm === 'concurrency' ? [] : [peaksPanel(rule)];
  made.append(
    element('div', { class: 'tiles' }, tile('requests', count(rule.requests), ''), ...byOutcome, tile('keys', about(rule), '')),
    timesPanel(rule),
    element('div', { class: 'both' }, ...peaks, limitsPanel(rule, replay.rules.filter((other) => other !== rule))),
    keysPanel(rule));
  return made;
}

showHead(replay);
if (replay.rules.length > 1) {
  byId('overview').hidden = false;
  byId('rules').tBodies[0].append(...replay.rules.map(overviewRow));
}
byId('sections').append(...replay.rules.map(section));

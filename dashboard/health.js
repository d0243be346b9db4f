'use strict';

// The sentence at the top.

let announced = '';

// Another headline is announced: what comes after it has numbers that change each second.
function showHealth(level, headline, { more = '', title = '', isStale = false } = {}) {
  const health = byId('health');
  health.className = level;
  tell(health, headline + more);
  if (headline !== announced) tell(byId('announcement'), headline + more);
  announced = headline;
  document.title = `${title}redis_rate_limit`;
  document.body.classList.toggle('stale', isStale);
}

// What an outage does to requests.
function effects(total) {
  const kinds = [
    [local, (number) => `this host alone decides ${number} /s`],
    [['error_open'], (number) => `${number} /s pass unchecked`],
    [['error_closed'], (number) => `${number} /s are refused`],
  ];
  return kinds.map(([of, describe]) => [sum(total, of), describe])
    .filter(([number]) => number > 0)
    .map(([number, describe]) => ` – ${describe(rate(number))}`);
}

// What the rule that rejects most comes to, once that is known. It is a warning where the alert
// RateLimitRejectsMuch would be one.
function worstOf(rules) {
  if (samples.length === 0) return { level: 'good', text: '' };
  const [worst] = rules.map((rule) => ({ ...rule, rejected: sum(rule.rates, refused) }))
    .sort((one, other) => other.rejected - one.rejected);
  if (!(worst?.rejected > 0)) return { level: 'good', text: ', nothing is rejected' };
  const checked = sum(worst.rates, all);
  const isMuch = worst.rejected > 1 && worst.rejected > 0.2 * checked;
  return {
    level: isMuch ? 'warning' : 'good',
    text: `, ${worst.name} rejects ${share(worst.rejected, checked)} of its checks`,
  };
}

// Rules that let nobody pass, which may be a fault of the configuration; null if there are none.
function troubleOfRules(rules) {
  const names = rules.filter(({ history }) => rejectsAll(history)).map(({ name }) => name);
  if (names.length === 0) return null;
  const [named, more] = [names.slice(0, 3).join(', '), names.length - 3];
  const text = names.length === 1 ? `Rule ${named} rejects all of its checks`
    : `${names.length} rules reject all of their checks: ${named}${more > 0 ? ` and ${more} more` : ''}`;
  return { level: 'bad', text };
}

function tellHealth({ backends }, rules, total) {
  const ofBackends = Object.entries(backends)
    .map(([name, backend]) => troubleOf(name, backend))
    .filter((trouble) => trouble !== null);
  const ofRules = troubleOfRules(rules);
  const isAnswered = Object.values(backends).some(({ state }) => state === 'up');
  const troubles = ofRules === null ? ofBackends : [...ofBackends, ofRules];
  if (troubles.length > 0) {
    const isBad = troubles.some(({ level }) => level === 'bad');
    showHealth(isBad ? 'bad' : 'warning', troubles.map(({ text }) => text).join('; '), {
      more: ofBackends.length > 0 ? effects(total).join('') : isAnswered ? '; Redis answers' : '',
      title: isBad ? `⚠ ${ofBackends.length > 0 ? 'Redis' : 'all rejected'} · ` : '',
    });
  } else if (isAnswered) {
    const { level, text } = worstOf(rules);
    showHealth(level, 'Redis answers', { more: text });
  } else {
    showHealth('unknown', 'No Redis has been asked yet');
  }
}

// Why there are no new numbers.
function tellNoData(reason) {
  const age = last && duration(Math.round((Date.now() - last.time) / 1000));
  const more = last ? `, the numbers below are ${age} old` : '';
  showHealth('bad', reason, { more, title: '⚠ no data · ', isStale: true });
}

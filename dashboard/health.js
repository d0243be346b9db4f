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

// The rule that rejects most, once that is known.
function worstOf(rules) {
  if (samples.length === 0) return '';
  const [worst] = rules.map((rule) => ({ ...rule, rejected: sum(rule.rates, refused) }))
    .sort((one, other) => other.rejected - one.rejected);
  if (!(worst?.rejected > 0)) return ', nothing is rejected';
  return `, ${worst.name} rejects ${share(worst.rejected, sum(worst.rates, all))} of its checks`;
}

function tellHealth({ backends }, rules, total) {
  const troubles = Object.entries(backends)
    .map(([name, backend]) => troubleOf(name, backend))
    .filter((trouble) => trouble !== null);
  if (troubles.length > 0) {
    const isBad = troubles.some(({ level }) => level === 'bad');
    showHealth(isBad ? 'bad' : 'warning', troubles.map(({ text }) => text).join('; '),
      { more: effects(total).join(''), title: isBad ? '⚠ Redis · ' : '' });
  } else if (Object.values(backends).some(({ state }) => state === 'up')) {
    showHealth('good', 'Redis answers', { more: worstOf(rules) });
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

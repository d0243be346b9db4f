'use strict';

// What stands for each zone: its memory, and the keys that are rejected most.

const keysShown = 10;
const keptBytes = 64; // of a key

const zoneCards = new Map(); // of names
const zoneSelection = new Selection('zones', 12);

function buildZone(name) {
  const memory = element('span', { class: 'unit' });
  const used = element('i', { class: 'passed' });
  const note = element('p', { class: 'note' });
  const keys = element('tbody');
  const none = element('tr', {}, element('td', { class: 'empty', colspan: 3 },
    'No key has been rejected, or none are kept (top_keys=off or show_keys=off).'));
  const titles = ['/s', 'in all'].map((title) => element('th', { scope: 'col', class: 'number' }, title));
  const head = element('thead', {}, element('tr', {}, element('th', { scope: 'col' }, 'Key'), ...titles));
  const place = element('div', { class: 'panel' }, heading(name, memory),
    element('div', { class: 'bar', 'aria-hidden': 'true' }, used), note, element('table', {}, head, keys));
  zoneCards.set(name, { memory, used, note, keys, none, place, rows: new Map() });
}

function buildZones(zones) {
  zoneCards.clear();
  Object.keys(zones).forEach(buildZone);
}

// Those rejected most now, then those rejected most.
function busiestKeys(name, zone) {
  return zone.top_rejected
    .map((top) => ({
      key: top.key,
      isCut: top.is_cut ?? false,
      shown: shownTop(top),
      total: top.rejected,
      now: recent((grew) => grew.keys.get(name)?.get(shownTop(top))),
    }))
    .sort((one, other) => other.now - one.now || other.total - one.total)
    .slice(0, keysShown);
}

function makeKeyRow(shown) {
  const [now, total] = [cell(), cell()];
  const link = element('a', {}, shown === '' ? '(empty)' : shown);
  const place = element('tr', {}, element('td', { class: 'key' }, link), now, total);
  return { link, now, total, place };
}

// Leads to the client in the inspector, once there is one.
function showLink(link, href) {
  if (href === null) link.removeAttribute('href');
  else if (link.getAttribute('href') !== href) link.setAttribute('href', href);
}

function showKeys(card, name, busiest) {
  card.rows = new Map(busiest.map(({ shown }) => [shown, card.rows.get(shown) ?? makeKeyRow(shown)]));
  for (const { key, isCut, shown, now, total } of busiest) {
    const row = card.rows.get(shown);
    showLink(row.link, isCut ? null : linkTo(name, key));
    tell(row.now, now > 0 ? rate(now) : '·');
    tell(row.total, count(total));
  }
  const places = [...card.rows.values()].map(({ place }) => place);
  arrange(card.keys, places.length > 0 ? places : [card.none]);
}

function showZone(name, zone) {
  const card = zoneCards.get(name);
  const [held, size] = [zone.used_bytes, zone.size_bytes];
  const place = zone.context === 'stream' ? 'in stream, ' : '';
  tell(card.memory, `${place}${bytes(held)} of ${bytes(size)}, ${count(zone.entries)} entries`);
  card.used.style.width = `${(100 * held) / size}%`;
  const busiest = busiestKeys(name, zone);
  tell(card.note, [
    ...(zone.evictions > 0 ? [`${count(zone.evictions)} entries had to make room: a larger zone would keep them.`] : []),
    ...(busiest.some(({ isCut }) => isCut) ? [`Of a key that ends in … only the first ${keptBytes} bytes are kept.`] : []),
  ].join(' '));
  showKeys(card, name, busiest);
}

function troubleOfZone(name, rules) {
  const troubles = rules.filter(({ zone }) => zone === name).map(troubleOfRule);
  return [0, 1, 2].map((at) => troubles.reduce((total, trouble) => total + trouble[at], 0));
}

function showZones(zones, rules) {
  const shown = zoneSelection.choose(Object.keys(zones), (name) => name, (name) => troubleOfZone(name, rules));
  arrange(byId('zones'), shown.map((name) => zoneCards.get(name).place));
  shown.forEach((name) => showZone(name, zones[name]));
}

'use strict';

// Tables of overrides.

const dates = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short' });
const shortest = (time) => (time < 1 ? seconds(time) : duration(Math.ceil(time)));

const isForAll = ({ key }) => key === null; // all clients of a rule

function numbersText({ limit, burst }) {
  const numbers = [['limit', limit], ['burst', burst]].filter(([, number]) => number !== null);
  return numbers.map(([name, number]) => `${name} ${count(number)}`).join(', ');
}

function whatText(override) {
  if (override.ban) return 'banned';
  return override.exempt ? 'exempt: not counted' : numbersText(override);
}

const endText = (left) => (left === null ? 'until deleted' : `for ${shortest(left)}`);

class OverrideTable {
  // `describe` gives what stands for whom an override is for, `actions` the buttons: { label, run }.
  constructor(table, { describe, actions, none }) {
    this.describe = describe;
    this.actions = actions;
    this.rows = new Map(); // by what identifies them
    this.table = table;
    const columns = ['For', 'What', 'Ends', 'Note', 'Set', ''];
    const head = element('thead', {}, element('tr', {}, ...columns.map((name) => element('th', { scope: 'col' }, name))));
    this.body = element('tbody');
    this.empty = element('td', { class: 'empty', colspan: columns.length }, none);
    this.none = element('tr', {}, this.empty);
    table.className = 'stacked';
    table.tabIndex = -1;
    table.replaceChildren(head, this.body);
  }

  // Keys that are not shown cannot be told from each other: their times can, mostly.
  static idOf({ zone, key, key_encoded: encoded, key_sha256: digest, rule, updated_at: time }) {
    return JSON.stringify([zone, digest ?? encoded, rule, key === '' ? time : null]);
  }

  makeRow(override) {
    const row = { whom: element('th', { scope: 'row' }), cells: {} };
    for (const label of ['What', 'Ends', 'Note', 'Set']) row.cells[label] = element('td', { 'data-label': label });
    row.cells.Note.className = 'foreign';
    row.buttons = element('td', { class: 'buttons' });
    row.place = element('tr', {}, row.whom, ...Object.values(row.cells), row.buttons);
    row.whom.append(...this.describe(override));
    for (const { label, run, isFor } of this.actions) {
      if (!isFor(override)) continue;
      const button = element('button', { type: 'button', class: 'writes' }, label);
      button.addEventListener('click', () => run(row.override));
      row.buttons.append(button);
    }
    return row;
  }

  // Those that are known keep their row, and the focus in it.
  put(overrides) {
    overrides.forEach((override) => this.putOne(override));
    this.arrange();
  }

  putOne(override) {
    const id = OverrideTable.idOf(override);
    if (!this.rows.has(id)) this.rows.set(id, this.makeRow(override));
    const row = this.rows.get(id);
    const { cells } = row;
    row.override = override;
    row.end = override.expires_in === null ? null : performance.now() + 1000 * override.expires_in;
    tell(cells.What, whatText(override));
    tell(cells.Note, override.note);
    tell(cells.Set, `${dates.format(new Date(1000 * override.updated_at))} by ${override.by || 'somebody'}`);
  }

  remove(override) {
    this.rows.delete(OverrideTable.idOf(override));
    this.arrange();
  }

  // Shows these and no others.
  set(overrides) {
    const ids = new Set(overrides.map(OverrideTable.idOf));
    this.rows = new Map([...this.rows].filter(([id]) => ids.has(id)));
    this.put(overrides);
  }

  // What stands where there are no rows.
  tellNone(text) {
    tell(this.empty, text);
  }

  arrange() {
    const places = [...this.rows.values()].map(({ place }) => place);
    const hadFocus = this.body.contains(document.activeElement);
    arrange(this.body, places.length > 0 ? places : [this.none]);
    if (hadFocus && !this.body.contains(document.activeElement)) this.table.focus();
    this.showTimes();
    showAccess();
  }

  // As time goes by.
  showTimes() {
    for (const { end, cells, place } of this.rows.values()) {
      const left = end === null ? null : (end - performance.now()) / 1000;
      place.classList.toggle('ended', left !== null && left <= 0);
      tell(cells.Ends, left === null ? 'never' : left > 0 ? `in ${shortest(left)}` : 'ended');
    }
  }
}

'use strict';

// A form that sets an override: of a client, or of a rule for all its clients.

const units = [[60, 'minutes'], [3600, 'hours'], [86400, 'days'], [null, 'until deleted']];
const buckets = ['token_bucket', 'gcra', 'leaky_bucket']; // only these take a burst

const field = (label, ...inputs) => element('label', {}, element('span', {}, label), ...inputs);
const numberInput = (least) => element('input', { type: 'number', inputmode: 'numeric', min: least, max: 1e9, step: 1 });

class OverrideForm {
  // `kinds` are what it can do: [value, label]. `submit` takes a rule's name, or null for all rules,
  // and the body of the API's request.
  constructor(form, { kinds, isOfRule, submit }) {
    this.form = form;
    this.isOfRule = isOfRule;
    this.rule = element('select');
    this.kind = element('select');
    this.limit = numberInput(0);
    this.burst = numberInput(0);
    this.time = element('input', { type: 'number', inputmode: 'numeric', min: 1, step: 1, required: '', value: 1 });
    this.unit = element('select');
    this.note = element('input', { maxlength: 128, autocomplete: 'off', class: 'foreign' });
    this.button = element('button', {}, 'Set');
    this.fields = {
      rule: field('Rule', this.rule),
      kind: field('What', this.kind),
      limit: field('Limit', this.limit),
      burst: field('Burst', this.burst),
      time: field('Lasts', element('div', { class: 'pair' }, this.time, this.unit)),
      note: field('Note', this.note),
    };
    this.fields.note.className = 'wide';
    offer(this.kind, kinds);
    offer(this.unit, units.map(([length, label]) => [String(length), label]));
    this.unit.setAttribute('aria-label', 'Unit of the time');
    form.append(element('fieldset', { class: 'writes fields' }, ...Object.values(this.fields), this.button));
    form.addEventListener('input', () => this.showFields());
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      submit(this.rule.value || null, this.body());
    });
    this.rules = {};
    this.clear();
  }

  // Which rules there are, as GET zones has them.
  setRules(rules) {
    this.rules = rules;
    const names = Object.keys(rules).map((name) => [name]);
    offer(this.rule, this.isOfRule ? names : [['', 'all rules of the zone'], ...names]);
    this.showFields();
  }

  showFields() {
    const { fields, rules } = this;
    const covered = Object.entries(rules).filter(([name]) => !this.rule.value || name === this.rule.value)
      .map(([, rule]) => rule);
    const hasNumbers = this.kind.value === 'numbers';
    const hasBurst = hasNumbers && covered.some(({ algorithm }) => buckets.includes(algorithm));
    fields.kind.hidden = this.kind.options.length === 1;
    fields.limit.hidden = !hasNumbers;
    fields.burst.hidden = !hasBurst;
    this.time.hidden = this.unit.value === 'null';
    this.time.disabled = this.time.hidden; // the browser does not check what is disabled
    this.limit.required = hasNumbers && !(hasBurst && this.burst.value !== '');
    const [{ limit, burst } = {}] = covered.length === 1 ? covered : [];
    this.limit.placeholder = limit ?? '';
    this.burst.placeholder = burst ?? '';
  }

  body() {
    const body = {};
    if (this.kind.value !== 'numbers') body[this.kind.value] = true;
    for (const name of ['limit', 'burst']) {
      if (!this.fields[name].hidden && this[name].value !== '') body[name] = this[name].valueAsNumber;
    }
    if (!this.time.disabled) body.expires_in = this.time.valueAsNumber * Number(this.unit.value);
    if (this.note.value !== '') body.note = this.note.value;
    return body;
  }

  // As it was at first.
  clear() {
    this.form.reset();
    this.unit.value = '3600';
    this.showFields();
  }

  // Shows what an override says, to be changed.
  fill({ rule, limit, burst, ban, exempt, expires_in: left, note }) {
    this.rule.value = rule ?? '';
    this.kind.value = ban ? 'ban' : exempt ? 'exempt' : 'numbers';
    this.limit.value = limit ?? '';
    this.burst.value = burst ?? '';
    const minutes = Math.max(1, Math.ceil(left / 60));
    const [length] = left === null ? [null] : units.filter(([unit]) => unit && (60 * minutes) % unit === 0).at(-1);
    this.unit.value = String(length);
    if (length !== null) this.time.value = (60 * minutes) / length;
    this.note.value = note;
    this.showFields();
    const first = this.kind.value === 'numbers' ? this.limit : this.time;
    (first.disabled ? this.note : first).focus();
  }
}

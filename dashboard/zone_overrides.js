'use strict';

// The overrides of a zone, in pages, and its rules for all clients.

const overridesMessage = new Message(byId('overrides-message'));
const ruleMessage = new Message(byId('rule-message'));
let cursor = null; // of the next page
let isListed = false; // the first page has come

const queryOf = (override) => ownerQuery(override, showsKeys(override.zone));

const ruleForm = new OverrideForm(byId('rule-form'), {
  kinds: [['numbers', 'other numbers']],
  isOfRule: true,
  submit: (rule, body) => putOverride(ruleMessage, `zone=${live.zone}&rule=${rule}`, body),
});

const zoneOverrides = new OverrideTable(byId('overrides'), {
  describe: (override) => {
    const rule = element('small', {}, override.rule ?? 'all rules');
    if (isForAll(override)) return ['all clients', rule];
    const client = queryOf({ ...override, rule: null });
    const link = client === null ? {} : { href: `#${client}` };
    return [element('a', { class: 'key', ...link }, override.key || '(a key that is not shown)'), rule];
  },
  actions: [
    { label: 'Change', isFor: isForAll, run: (override) => ruleForm.fill(override) },
    {
      label: 'Delete',
      isFor: (override) => queryOf(override) !== null,
      run: (override) => deleteOverride(overridesMessage, queryOf(override), override),
    },
  ],
  none: '',
});

// Adds the next page.
async function listMore() {
  const { zone } = live;
  const from = cursor;
  const isCurrent = () => zone === live.zone && from === cursor;
  try {
    const page = await ask('GET', `overrides?zone=${zone}${from === null ? '' : `&cursor=${from}`}`);
    if (!isCurrent()) return;
    isListed = true;
    zoneOverrides.tellNone('None.');
    zoneOverrides.put(page.overrides);
    cursor = page.cursor;
    byId('more').hidden = cursor === null;
    overridesMessage.show('');
  } catch (error) {
    if (isCurrent()) overridesMessage.show(error.message, 'bad');
  }
}

function listFromStart() {
  cursor = null;
  isListed = false;
  byId('more').hidden = true;
  zoneOverrides.tellNone('They are in Redis, and are not read yet.');
  zoneOverrides.set([]);
  return listMore();
}

byId('more').addEventListener('click', listMore);
byId('reload').addEventListener('click', listFromStart);

'use strict';

// The client that is looked at, and what an operator can do for it.

const lookUpMessage = new Message(byId('look-up-message'));
const clientMessage = new Message(byId('client-message'));
const clientRules = new ClientRules(byId('client-rules'));

const queryOfClient = (rule = null) => clientQuery(live.zone, live.key) + (rule === null ? '' : `&rule=${rule}`);

const clientForm = new OverrideForm(byId('client-form'), {
  kinds: [['numbers', 'other numbers'], ['ban', 'ban'], ['exempt', 'exempt']],
  isOfRule: false,
  submit: (rule, body) => putOverride(clientMessage, queryOfClient(rule), body),
});

const clientOverrides = new OverrideTable(byId('client-overrides'), {
  describe: (override) => [
    isForAll(override) ? 'all clients' : 'this client',
    element('small', {}, override.rule ?? 'all rules'),
  ],
  actions: [
    { label: 'Change', isFor: (override) => !isForAll(override), run: (override) => clientForm.fill(override) },
    {
      label: 'Delete',
      isFor: (override) => !isForAll(override),
      run: (override) => deleteOverride(clientMessage, queryOfClient(override.rule), override),
    },
  ],
  none: 'None: the configured numbers hold.',
});

byId('reset').addEventListener('click', () => {
  change(clientMessage, ['DELETE', `key?${queryOfClient()}`], ({ deleted }) =>
    `Reset, ${count(deleted)} ${deleted === 1 ? 'counter' : 'counters'} deleted: the full limit is there again. ${obeyed}`);
});

byId('look-up').addEventListener('submit', (event) => {
  event.preventDefault();
  const hash = `#${clientQuery(live.zone, keyKinds[byId('key-kind').value](byId('key').value))}`;
  if (location.hash === hash) followAddress();
  else location.hash = hash;
});

// Shows a key in the form, encoded where its text cannot be typed.
function showInForm(key) {
  const [, name, value] = /^(\w+)=(.*)$/.exec(key);
  let text = value;
  let kind = name === 'key' ? 'text' : 'sha256';
  try {
    text = decodeURIComponent(value);
  } catch {
    kind = 'encoded';
  }
  byId('key').value = text;
  if (byId('key').value !== text) [byId('key').value, kind] = [value, 'encoded'];
  byId('key-kind').value = kind;
}

function showClient({ key, rules }) {
  const { level, text } = stateOf(rules, rulesOfZone());
  tell(byId('client-title'), key || '(a key that is not shown)');
  byId('client-state').className = `state ${level}`;
  tell(byId('client-state'), text);
  const used = usedOfTightest(rules);
  tell(byId('client-used'), used === null ? '' : `${used} % used`);
  clientRules.show(rules, rulesOfZone());
  clientOverrides.set(overridesOf(rules));
}

// Asks for the client. What is shown is marked as old if there is no answer.
async function refreshClient() {
  const { zone, key } = live;
  if (key === undefined) return;
  const isCurrent = () => zone === live.zone && key === live.key;
  try {
    const answer = await ask('GET', `key?${clientQuery(zone, key)}`);
    if (!isCurrent()) return;
    const isNew = byId('client').hidden;
    byId('client').hidden = false;
    byId('client').classList.remove('stale');
    lookUpMessage.show('');
    showClient(answer);
    if (isNew) byId('client-title').focus();
  } catch (error) {
    if (!isCurrent()) return;
    if (error.status === 400) live.key = undefined; // asking again is of no use
    byId('client').classList.add('stale');
    lookUpMessage.show(error.message, 'bad');
  }
}

function lookAt(key) {
  live.key = key;
  byId('client').hidden = true;
  lookUpMessage.show('');
  clientMessage.show('');
  clientForm.clear();
  if (key !== undefined) showInForm(key);
}

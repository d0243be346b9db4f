'use strict';

// What the inspector knows of the zones, and how it asks for changes.

const live = {
  zones: {}, // as GET zones has them
  mayWrite: true, // until the API says otherwise
  zone: '', // the name of the one that is shown
  key: undefined, // of the client that is shown, as a part of a query
};

const rulesOfZone = () => live.zones[live.zone]?.rules ?? {};
const showsKeys = (zone) => (live.zones[zone]?.show_keys ?? 'on') === 'on';

// Where a link to a top key leads, or null if there is no inspector, or no key to look for.
function linkTo(zone, shown) {
  return Object.hasOwn(live.zones, zone) && showsKeys(zone) && shown !== '' ? `#${clientQuery(zone, keyOfTop(shown))}` : null;
}

function showAccess() {
  byId('read-only').hidden = live.mayWrite;
  for (const control of document.querySelectorAll('#live .writes')) control.disabled = !live.mayWrite;
}

function setAccess(mayWrite) {
  if (mayWrite === live.mayWrite) return;
  live.mayWrite = mayWrite;
  showAccess();
}

// Asks for a change and says what became of it: `describe` makes a sentence of the answer. Resolves
// to the answer, or to nothing if there is none.
async function change(message, [method, path, body], describe) {
  message.show('Asking …');
  let answer;
  try {
    answer = await ask(method, path, body);
    message.show(describe(answer), 'good');
  } catch (error) {
    if (error.status === 405) setAccess(false);
    message.show(error.message, 'bad');
  }
  refreshLive();
  return answer;
}

const resourceOf = (query) => (/&key/.test(query) ? 'override' : 'rule');
const obeyed = 'All hosts obey within 2 s.';

// `query` names whom it is for.
async function putOverride(message, query, body) {
  const answer = await change(message, ['PUT', `${resourceOf(query)}?${query}`, body], (override) => {
    const where = override.rule === null ? 'at all rules' : `at ${override.rule}`;
    return `Set: ${whatText(override)} ${where}, ${endText(override.expires_in)}. ${obeyed}`;
  });
  if (answer?.zone === live.zone) zoneOverrides.put([answer]);
}

async function deleteOverride(message, query, override) {
  const answer = await change(message, ['DELETE', `${resourceOf(query)}?${query}`], ({ deleted }) => (
    deleted > 0 ? `Deleted: ${whatText(override)}. ${obeyed}` : 'There was nothing left to delete.'));
  if (answer) zoneOverrides.remove(override);
}

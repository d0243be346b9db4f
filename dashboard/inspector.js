'use strict';

// Keeps the inspector up to date, and shows what the page's address names.

const liveInterval = 2000; // ms between two looks at zones and client

const apiMessage = new Message(byId('api-message'));

function showChosenZone() {
  const { overrides = 0 } = live.zones[live.zone] ?? {};
  if (byId('zone').value !== live.zone) byId('zone').value = live.zone;
  tell(byId('overrides-count'), `${count(overrides)} known to this host`);
  clientForm.setRules(rulesOfZone());
  ruleForm.setRules(rulesOfZone());
}

function followAddress() {
  const { zone, key } = addressed();
  const isThere = zone !== undefined && Object.hasOwn(live.zones, zone);
  const shown = isThere ? zone : Object.keys(live.zones)[0] ?? '';
  const isOther = shown !== live.zone;
  live.zone = shown;
  lookAt(isThere ? key : undefined);
  if (zone !== undefined && !isThere) lookUpMessage.show(`There is no zone “${zone}”.`, 'bad');
  showChosenZone();
  if (isOther) {
    overridesMessage.show('');
    ruleMessage.show('');
    listFromStart();
  }
  refreshClient();
}

async function refreshZones() {
  try {
    const { zones, write = live.mayWrite } = await ask('GET', 'zones');
    live.zones = zones;
    offer(byId('zone'), Object.keys(zones).map((name) => [name]));
    byId('inspector').hidden = false;
    setAccess(write);
    apiMessage.show('');
    if (Object.hasOwn(zones, live.zone)) showChosenZone();
    else followAddress();
  } catch (error) {
    apiMessage.show(error.message, 'bad');
  }
}

async function refreshLive() {
  await refreshZones();
  await refreshClient();
  zoneOverrides.showTimes();
  if (!isListed && Object.hasOwn(live.zones, live.zone)) listMore();
}

async function watchLive() {
  if (!document.hidden) await refreshLive();
  setTimeout(watchLive, liveInterval);
}

byId('zone').addEventListener('change', () => {
  location.hash = `#zone=${byId('zone').value}`;
});

byId('to-live').addEventListener('click', () => byId('key').focus());

if (apiPath !== '') {
  byId('live').hidden = false;
  byId('to-live').hidden = false;
  addEventListener('hashchange', followAddress);
  watchLive();
}

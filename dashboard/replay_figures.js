'use strict';

// Parts, rates and times, so that what is little does not look like nothing.

// What a rule comes to in a request, in the order in which charts stack it.
const outcomes = ['passed', 'delayed', 'rejected'];

// Part of a whole in percent: nothing and everything only where it is so.
function percent(part, whole) {
  if (whole === 0) return '–';
  const value = (100 * part) / whole;
  const text = part === whole || part === 0 ? value
    : value > 99.9 ? 'over 99.9'
      : value < 0.001 ? 'below 0.001' : Number(value.toPrecision(value < 1 ? 2 : 3));
  return `${text}\u00a0%`;
}

const ofKeys = (keys) => `${count(keys)} ${keys === 1 ? 'key' : 'keys'}`;
const ofRequests = (requests) => `${count(requests)} ${requests === 1 ? 'request' : 'requests'}`;

// The shortest unit of time in which such a rate is no fraction.
function unitOfRate(perSecond) {
  const units = [{ length: 1, name: 's' }, { length: 60, name: 'min' }, { length: 3600, name: 'h' }];
  return units.find(({ length }) => perSecond * length >= 1) ?? { length: 86400, name: 'd' };
}

const dayOf = (time) => new Date(time * 1000).toISOString().slice(0, 10);
const clockOf = (time) => new Date(time * 1000).toISOString().slice(11, 19);

// From one time to another, as the log and its table have them: in UTC.
function period(begin, end) {
  const from = `${dayOf(begin)} ${clockOf(begin)}`;
  if (begin === end) return `${from} UTC`;
  return `${from} to ${dayOf(begin) === dayOf(end) ? '' : `${dayOf(end)} `}${clockOf(end)} UTC`;
}

const dayName = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' });
const [minute, hour, day] = [60, 3600, 86400];
const tickLengths = [1, 2, 5, 10, 15, 30, minute, 2 * minute, 5 * minute, 10 * minute, 15 * minute, 30 * minute,
  hour, 2 * hour, 3 * hour, 6 * hour, 12 * hour, day, 2 * day, 7 * day, 14 * day, 28 * day, 91 * day, 364 * day];

// Where an axis of time has its marks, as many as have room, and what stands there.
function ticksOf(begin, end) {
  const length = tickLengths.find((each) => (end - begin) / each <= (each < minute ? 4 : 6)) ?? end - begin;
  const ticks = [];
  for (let time = Math.ceil(begin / length) * length; time <= end; time += length) {
    const isDay = length >= day || (time % day === 0 && length >= minute);
    ticks.push({ time, text: isDay ? dayName.format(time * 1000) : clockOf(time).slice(0, length < minute ? 8 : 5) });
  }
  return ticks;
}

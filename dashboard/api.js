'use strict';

// Asks the operator's API. What it has not done becomes a sentence for the operator.

const apiPath = document.body.dataset.api; // empty: this dashboard has no API
const apiPatience = 5000; // ms for one answer; the API itself waits 2 s for each command to Redis

const failures = {
  400: 'The API does not take this',
  403: 'The API refuses this',
  404: 'The API does not know this',
  405: 'The API does not allow this',
  413: 'This is too long for the API',
  415: 'The API does not take this type',
  502: 'Redis has not done this',
  507: 'The zone has no room for this',
};
const unknownOutcome = 'Nobody knows whether it is done; doing it again is safe.';

class ApiError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

// nginx itself, or somebody between, answers without a description.
function errorOf(status, { description, outcome } = {}) {
  if (description === undefined) {
    const refusals = { 401: 'asks who you are', 403: 'lets you not in', 404: 'has no API there' };
    return new ApiError(`nginx ${refusals[status] ?? 'fails'}: ${apiPath} was answered with ${status}.`, status);
  }
  const isUnknown = outcome === 'unknown';
  const failure = isUnknown ? 'Redis has not answered' : failures[status] ?? 'The API fails';
  const more = isUnknown ? ` ${unknownOutcome}` : '';
  return new ApiError(`${failure} (${status}): ${description}.${more}`, status);
}

function parsed(text) {
  try {
    return JSON.parse(text) ?? undefined;
  } catch {
    return undefined;
  }
}

// Resolves to the answer; `path` is below the API's own and may have a query.
async function ask(method, path, body) {
  const options = { method, cache: 'no-store', signal: AbortSignal.timeout(apiPatience) };
  if (body !== undefined) {
    options.headers = { 'Content-Type': 'application/json' };
    options.body = JSON.stringify(body);
  }
  let response;
  let text;
  try {
    response = await fetch(apiPath + path, options);
    text = await response.text();
  } catch (error) {
    const more = method === 'GET' ? '' : ` ${unknownOutcome}`;
    throw new ApiError(`nginx does not answer (${error.message}).${more}`);
  }
  const answer = parsed(text);
  if (!response.ok) throw errorOf(response.status, answer);
  if (answer === undefined) throw new ApiError(`${apiPath} answered with what is no JSON.`);
  return answer;
}

// A place for what became of something: good news is announced politely, failures at once.
class Message {
  constructor(place) {
    this.place = place;
  }

  show(text, level = '') {
    this.place.className = `message ${level}`;
    this.place.setAttribute('role', level === 'bad' ? 'alert' : 'status');
    tell(this.place, text);
  }
}

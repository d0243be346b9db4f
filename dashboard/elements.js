'use strict';

// Elements of the page. All that is shown is text, never markup.

const byId = (id) => document.getElementById(id);

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function drawing(tag, attributes) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

const cell = (...children) => element('td', { class: 'number' }, ...children);
const heading = (title, ...more) => element('div', { class: 'heading' }, element('h3', {}, title), ...more);

// What has not changed is not touched: somebody may have selected it, or be listening to it.
function tell(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// Puts these into a parent, in this order.
function arrange(parent, children) {
  const kept = new Set(children);
  for (const child of [...parent.children]) {
    if (!kept.has(child)) child.remove();
  }
  children.forEach((child, at) => {
    if (parent.children[at] !== child) parent.insertBefore(child, parent.children[at] ?? null);
  });
}

// Puts these options into a select; what was selected stays so, where it still can be.
function offer(select, options) {
  const { value } = select;
  const values = options.map((option) => option[0]);
  if (values.join('\n') === [...select.options].map((option) => option.value).join('\n')) return;
  select.replaceChildren(...options.map(([each, label = each]) => element('option', { value: each }, label)));
  if (values.includes(value)) select.value = value;
}

// Numbers beside their labels, to be told again and again.
function makeLegend(place, series) {
  const numbers = series.map(() => element('b'));
  const items = series.map(({ name, label }, i) => element('li', { class: name }, `${label} `, numbers[i]));
  place.replaceChildren(...items);
  return (texts) => texts.forEach((text, i) => tell(numbers[i], text));
}

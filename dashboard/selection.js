'use strict';

// Which of many rules or zones stand on the page, and in which order.

// Somebody may type before the first status.json has come.
function updateIfKnown() {
  if (last !== undefined) update();
}

class Selection {
  // The controls are those of the page whose ids begin with `id`. `most` are shown until somebody wants all.
  constructor(id, most) {
    this.most = most;
    [this.filter, this.order, this.count, this.all] =
      ['filter', 'order', 'count', 'all'].map((control) => byId(`${id}-${control}`));
    this.isWhole = false;
    for (const control of [this.filter, this.order]) control.addEventListener('input', updateIfKnown);
    this.all.addEventListener('click', () => {
      this.isWhole = !this.isWhole;
      updateIfKnown();
    });
  }

  // Returns those of the items that are shown. The items are in the order of the configuration:
  // `textOf` gives what the filter looks into, and `troubleOf` numbers, of which the first ones weigh most.
  choose(items, textOf, troubleOf) {
    const words = this.filter.value.toLowerCase().split(/\s+/);
    const found = items.filter((item) => words.every((word) => textOf(item).toLowerCase().includes(word)));
    const ordered = this.order.value === 'trouble' ? mostTroubledFirst(found, troubleOf) : found;
    const shown = this.isWhole ? ordered : ordered.slice(0, this.most);
    tell(this.count, shown.length < items.length ? `${count(shown.length)} of ${count(items.length)}` : '');
    this.filter.parentElement.hidden = items.length <= this.most && this.filter.value === '';
    this.order.parentElement.hidden = items.length < 2;
    this.all.hidden = ordered.length <= this.most;
    tell(this.all, this.isWhole ? `Show the first ${this.most}` : `Show all ${count(ordered.length)}`);
    return shown;
  }
}

function mostTroubledFirst(items, troubleOf) {
  const difference = ([, one], [, other]) => {
    const at = one.findIndex((number, i) => number !== other[i]);
    return at < 0 ? 0 : other[at] - one[at];
  };
  return items.map((item) => [item, troubleOf(item)]).sort(difference).map(([item]) => item);
}

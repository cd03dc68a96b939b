// Values that change seldom, such as the configuration of links: changes in the order of time, from
// which the values at any moment follow.

/** Above this many changes, the older half is reduced to its result. */
const MAX_CHANGES = 20_000;

export class History<T> {
  #base: T[];
  #changes: { at: number; key: number; value: T }[] = [];
  /** Values after the first `#applied` changes. */
  #values: T[];
  #applied = 0;

  constructor(base: T[]) {
    this.#base = base;
    this.#values = base.slice();
  }

  add(at: number, key: number, value: T): void {
    if (!(key in this.#base)) return;
    const last = this.#changes.at(-1)?.at ?? -Infinity;
    this.#changes.push({ at: Math.max(at, last), key, value });
    if (this.#changes.length > MAX_CHANGES) {
      const old = this.#changes.splice(0, MAX_CHANGES / 2);
      for (const change of old) this.#base[change.key] = change.value;
      this.#restart();
    }
  }

  /** The values at a time, to be read before the next call. */
  at(time: number): readonly T[] {
    const changes = this.#changes;
    if (this.#applied > 0 && changes[this.#applied - 1].at > time) this.#restart();
    while (this.#applied < changes.length && changes[this.#applied].at <= time) {
      const { key, value } = changes[this.#applied];
      this.#values[key] = value;
      this.#applied += 1;
    }
    return this.#values;
  }

  last(): readonly T[] {
    return this.at(Infinity);
  }

  #restart(): void {
    this.#values = this.#base.slice();
    this.#applied = 0;
  }
}

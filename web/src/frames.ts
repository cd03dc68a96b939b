// Samples of a run over time, in bounded memory: one row of 32-bit floats a frame. When the buffer
// is full, neighbouring old rows are merged, so that old moments get a coarser interval.

/** How values of two intervals become one. */
export const MEAN = 0;
export const MAX = 1;
export const SUM = 2;

/** Share of the newest frames that keep their interval. */
const RECENT = 0.25;
/** A merge frees at least this share of the rows, so that it is seldom. */
const FREED = 0.125;

export class Frames {
  length = 0;
  /** Ends of the intervals, ascending, in s. */
  readonly time: Float64Array;
  readonly span: Float64Array;
  #rows: (Float32Array | undefined)[] = [];
  #unused: Float32Array[] = [];
  /** Longest interval that merged rows may have, in s. */
  #longest = 0;
  readonly #merges: Uint8Array;

  /** `merges` has one of MEAN, MAX and SUM for each column. */
  constructor(
    merges: Uint8Array,
    readonly capacity: number,
  ) {
    this.#merges = merges;
    this.time = new Float64Array(capacity);
    this.span = new Float64Array(capacity);
  }

  get width(): number {
    return this.#merges.length;
  }

  row(index: number): Float32Array {
    return this.#rows[index]!;
  }

  /** A value of a frame; counts are per second, whatever the length of the interval. */
  value(frame: number, column: number): number {
    const value = this.row(frame)[column];
    return this.#merges[column] === SUM ? value / this.span[frame] : value;
  }

  get bytes(): number {
    return (this.#rows.length + this.#unused.length) * this.width * 4 + this.capacity * 16;
  }

  /** Adds a frame and returns its row, filled with zeros. `time` is above that of the last frame. */
  add(time: number, span: number): Float32Array {
    if (this.length === this.capacity) this.#thin();
    const row = this.#unused.pop()?.fill(0) ?? new Float32Array(this.width);
    this.time[this.length] = time;
    this.span[this.length] = span;
    this.#rows[this.length] = row;
    this.length += 1;
    return row;
  }

  /** The last frame that began before `time`, -1 if there is none. */
  at(time: number): number {
    let low = 0;
    let high = this.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      // Half a nanosecond: times come from sums of intervals.
      if (this.time[middle] - this.span[middle] < time - 5e-10) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  /**
   * Columns between two times with the frames around them: ends of intervals, then the values of
   * each column. NaN marks unknown values; a gap without frames has one as well.
   */
  series(columns: number[], from: number, to: number): number[][] {
    const result: number[][] = [[], ...columns.map(() => [])];
    for (let i = Math.max(0, this.at(from) - 1); i < this.length; i += 1) {
      const begin = this.time[i] - this.span[i];
      if (i > 0 && begin - this.time[i - 1] > 0.6 * this.span[i]) {
        result[0].push((begin + this.time[i - 1]) / 2);
        columns.forEach((_, place) => result[place + 1].push(NaN));
      }
      result[0].push(this.time[i]);
      columns.forEach((column, place) => result[place + 1].push(this.value(i, column)));
      if (begin > to) break;
    }
    return result;
  }

  #thin(): void {
    const needed = Math.max(1, Math.floor(this.capacity * FREED));
    const target = this.capacity - needed;
    this.#longest ||= 2 * Math.min(...this.span.subarray(0, this.length));
    for (;;) {
      this.#merge(Math.floor(this.capacity * (1 - RECENT)));
      if (this.length <= target) return;
      this.#longest *= 2;
    }
  }

  /** Merges pairs among the first `end` rows. */
  #merge(end: number): void {
    let to = 0;
    for (let from = 0; from < this.length; from += 1) {
      const row = this.#rows[from]!;
      const span = this.span[from];
      const joined = to > 0 ? this.span[to - 1] + span : Infinity;
      if (from < end && joined <= this.#longest * 1.001) {
        this.#join(this.#rows[to - 1]!, this.span[to - 1], row, span);
        this.time[to - 1] = this.time[from];
        this.span[to - 1] = joined;
        this.#unused.push(row);
      } else {
        this.#rows[to] = row;
        this.time[to] = this.time[from];
        this.span[to] = span;
        to += 1;
      }
    }
    this.length = to;
    this.#rows.length = to;
  }

  /** Means are weighted by the spans; an unknown value (NaN) gives way to a known one. */
  #join(into: Float32Array, span: number, from: Float32Array, other: number): void {
    const share = other / (span + other);
    for (let i = 0; i < into.length; i += 1) {
      const a = into[i];
      const b = from[i];
      if (Number.isNaN(a)) into[i] = b;
      else if (Number.isNaN(b)) continue;
      else if (this.#merges[i] === MEAN) into[i] = a + (b - a) * share;
      else if (this.#merges[i] === MAX) into[i] = Math.max(a, b);
      else into[i] = a + b;
    }
  }
}

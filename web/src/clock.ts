// The pace of a run on the virtual clock.

/** Speeds in thousandths of real time; 0 is as fast as possible. */
export const SPEEDS = [1, 10, 100, 1000, 10_000, 100_000, 0];

export const speed = (permille: number): string =>
  permille === 0 ? 'max' : `${String(permille / 1000)}x`;

/** Lengths of steps in s, with the interval at which values change. */
export function steps(interval: number): number[] {
  return [...new Set([0.001, 0.01, 0.1, 1, 10, interval])].sort((a, b) => a - b);
}

/** Lab time in s with three to nine decimals. */
export function precise(value: number): string {
  return `${value.toFixed(9).replace(/0{1,6}$/, '')} s`;
}

// Small symmetric systems of equations, as least squares make them.

/** The inverse of a symmetric positive matrix (row after row), or `null` when it has none. By Cholesky's decomposition. */
export function inverse(matrix: readonly number[], size: number): number[] | null {
  const lower = new Array<number>(size * size).fill(0);
  const at = (from: readonly number[], row: number, column: number) => from[row * size + column] ?? 0;
  for (let row = 0; row < size; row++) {
    for (let column = 0; column <= row; column++) {
      let sum = at(matrix, row, column);
      for (let k = 0; k < column; k++) sum -= at(lower, row, k) * at(lower, column, k);
      if (row === column) {
        if (!(sum > 0)) return null;
        lower[row * size + row] = Math.sqrt(sum);
      } else {
        lower[row * size + column] = sum / at(lower, column, column);
      }
    }
  }
  const result = new Array<number>(size * size).fill(0);
  for (let unit = 0; unit < size; unit++) {
    const solution = new Array<number>(size).fill(0);
    for (let row = 0; row < size; row++) {
      let sum = row === unit ? 1 : 0;
      for (let k = 0; k < row; k++) sum -= at(lower, row, k) * (solution[k] ?? 0);
      solution[row] = sum / at(lower, row, row);
    }
    for (let row = size - 1; row >= 0; row--) {
      let sum = solution[row] ?? 0;
      for (let k = row + 1; k < size; k++) sum -= at(lower, k, row) * (solution[k] ?? 0);
      solution[row] = sum / at(lower, row, row);
      result[row * size + unit] = solution[row] ?? 0;
    }
  }
  return result;
}

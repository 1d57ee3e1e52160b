// Rows for words that hang on branches, so that no words cover others, nor the branch that leads to others.
//
//      │   │            │ each branch comes from above and its words begin where it ends
//      │   12 lost      3 lost        row 0
//      7 lost                         row 1

/** Words along a line: where their branch comes down and they begin, and where they end. */
export interface Words {
  from: number;
  to: number;
}

/** The row of each; 0 of those that are not there. */
export function packed_rows(all: readonly (Words | null)[]): number[] {
  const rows = all.map(() => 0);
  // From right to left: a branch to the right is then never longer than the words that it would cross.
  const there = all
    .flatMap((words, index) => (words ? [{ words, index }] : []))
    .sort((a, b) => b.words.from - a.words.from);
  there.forEach(({ words, index }, nth) => {
    const reached = there.slice(0, nth).filter((other) => other.words.from < words.to);
    rows[index] = Math.max(-1, ...reached.map((other) => rows[other.index] ?? 0)) + 1;
  });
  return rows;
}

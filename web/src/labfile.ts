// The changes of a session, for the end of a lab file.

/** `changes` are `[[at]]` events, as the lab wrote them in its answers. */
export const changesFile = (lab: string, changes: string[]): string =>
  `# Changes made in the live view of lab ${JSON.stringify(lab)}: append them to its file.\n` +
  changes.join('');

// A file that somebody chooses is read here, into the field that its text could be pasted into.
document.addEventListener('change', async ({target}) => {
  if (!target.matches('[data-read-into]') || !target.files.length) return;
  const bytes = await target.files[0].arrayBuffer();
  const [first, second] = new Uint8Array(bytes);
  const encoding = {'255,254': 'utf-16le', '254,255': 'utf-16be'}[`${first},${second}`] ?? 'utf-8';
  const field = document.getElementById(target.dataset.readInto);
  field.value = new TextDecoder(encoding).decode(bytes);
  target.value = ''; // the same file may be chosen again
  field.form.querySelector('[name="do"][value="look"]').click();
});

// The form of an endpoint in the API reference: sends the request and shows the answer as it came.
const form = document.getElementById('api-try');
const MAX_CHARS = 200_000; // of an answer that is shown

function address() {
  let path = form.dataset.path;
  const query = new URLSearchParams();
  for (const input of form.querySelectorAll('input[data-in]')) {
    if (input.dataset.in === 'path') {
      path = path.replace(`{${input.name}}`, encodeURIComponent(input.value));
    } else if (input.dataset.in === 'query' && input.value) {
      query.append(input.name, input.value);
    }
  }
  return query.size ? `${path}?${query}` : path;
}

function headers() {
  const sent = new Headers({'X-CSRF-Token': form.dataset.csrf});
  if (form.dataset.mediaType) sent.set('Content-Type', form.dataset.mediaType);
  for (const input of form.querySelectorAll('input[data-in="header"]')) {
    if (input.value) sent.set(input.name, input.value);
  }
  return sent;
}

function show(status, text) {
  let shown = text;
  try {
    shown = JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    // It is no JSON: shown as it is.
  }
  document.getElementById('api-status').textContent = status;
  document.getElementById('api-text').textContent = shown.slice(0, MAX_CHARS);
  document.getElementById('api-answer').hidden = false;
}

form.addEventListener('submit', async (event) => {
  event.preventDefault();
  const button = form.querySelector('button[type="submit"]');
  button.disabled = true;
  try {
    const body = document.getElementById('api-body')?.value || undefined;
    const response = await fetch(address(), {method: form.dataset.method, headers: headers(), body});
    show(`${response.status} ${response.statusText}`, await response.text());
  } catch {
    show(form.dataset.failed, '');
  } finally {
    button.disabled = false;
  }
});

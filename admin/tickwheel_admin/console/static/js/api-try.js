// The form of an endpoint in the API reference: sends the request and shows the answer as it came.
const form = document.getElementById('api-try');
const MAX_CHARS = 200_000; // of an answer that is shown
const STREAM_MS = 10_000; // so long a stream is shown, which does not end by itself

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

async function showStream(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const timer = setTimeout(() => reader.cancel(), STREAM_MS);
  let text = '';
  try {
    for (let piece = await reader.read(); !piece.done && text.length < MAX_CHARS; piece = await reader.read()) {
      text += piece.value;
      show(`${response.status} ${response.statusText} · ${form.dataset.stream}`, text);
    }
  } finally {
    clearTimeout(timer);
    reader.cancel();
  }
}

form.addEventListener('submit', async (event) => {
  event.preventDefault();
  const button = form.querySelector('button[type="submit"]');
  button.disabled = true;
  try {
    const body = document.getElementById('api-body')?.value || undefined;
    const response = await fetch(address(), {method: form.dataset.method, headers: headers(), body});
    if (response.headers.get('Content-Type')?.startsWith('text/event-stream')) await showStream(response);
    else show(`${response.status} ${response.statusText}`, await response.text());
  } catch {
    show(form.dataset.failed, '');
  } finally {
    button.disabled = false;
  }
});

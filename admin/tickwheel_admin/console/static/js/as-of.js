// The slider of the past: it tells the instant while it is moved, and shows it when it rests.
import {format} from './times.js';

const REST_MS = 400; // keys move it minute by minute

const slider = document.querySelector('[data-past-slider]');
if (slider) {
  const form = slider.form;
  const shown = form.querySelector('output');
  const field = form.querySelector('[name=time]');
  const at = document.createElement('input');
  at.type = 'hidden';
  at.name = 'at';
  form.append(at);
  const instant = () => Number(slider.dataset.low) + slider.valueAsNumber * 60000;
  const sendTheSlider = (yes) => {
    at.disabled = !yes;
    field.disabled = yes;
  };
  let resting;
  sendTheSlider(false);
  slider.hidden = false;
  slider.addEventListener('input', () => {
    shown.value = format(instant(), 'short');
  });
  slider.addEventListener('change', () => {
    clearTimeout(resting);
    resting = setTimeout(() => {
      at.value = instant();
      sendTheSlider(true);
      form.requestSubmit();
    }, REST_MS);
  });
  addEventListener('pageshow', () => sendTheSlider(false)); // also when the reader comes back to it
}

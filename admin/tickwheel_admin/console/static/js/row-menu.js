// One menu for the rows of a list: the button that opens it says which row, and what one may do there.
const menu = document.getElementById('row-menu');

document.addEventListener('click', (event) => {
  const button = event.target.closest?.('[popovertarget="row-menu"]');
  if (!button) return;
  const may = button.dataset.may.split(' ');
  for (const item of menu.querySelectorAll('a')) {
    const {before, behind} = item.dataset;
    item.href = before ? before + button.dataset.row : `/jobs/${button.dataset.row}${behind}`;
    item.hidden = Boolean(item.dataset.may) && !may.includes(item.dataset.may);
  }
}, true);

// What was chosen opens a dialog or a page: the menu has done its work.
menu.addEventListener('click', (event) => {
  if (event.target.closest('a')) menu.hidePopover();
});

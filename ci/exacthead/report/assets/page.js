// Copying, sorting and filtering. A page is whole without it: what needs it is hidden until then.
(() => {
    "use strict";

    const said = (() => {
        const place = document.createElement("p");
        place.className = "reads";
        place.setAttribute("role", "status");
        document.querySelector("main").append(place);
        return (text) => { place.textContent = text; };
    })();

    // -- the line to copy
    const copied = async (code) => {
        try {
            await navigator.clipboard.writeText(code.textContent);
            return true;
        } catch {
            // No clipboard without a secure origin, or without leave: the selection can be copied.
            const range = document.createRange();
            range.selectNodeContents(code);
            const selection = getSelection();
            selection.removeAllRanges();
            selection.addRange(range);
            return document.execCommand("copy");
        }
    };
    for (const button of document.querySelectorAll("button[data-copy]")) {
        const label = button.textContent;
        button.hidden = false;
        button.addEventListener("click", async () => {
            const done = await copied(button.parentElement.querySelector("code"));
            button.textContent = done ? "Copied" : "Selected";
            said(done ? "The line is in the clipboard" : "The line is selected; copy it");
            setTimeout(() => { button.textContent = label; }, 2000);
        });
    }

    // -- tables that sort by a click on a column's head
    const value = (row, index) => {
        const cell = row.cells[index];
        const given = cell.dataset.v ?? cell.textContent.trim();
        const number = given === "" ? NaN : Number(given);
        return Number.isNaN(number) ? given : number;
    };
    const compare = (a, b) => {
        if (typeof a === typeof b) {
            return typeof a === "number" ? a - b : a.localeCompare(b);
        }
        return typeof a === "number" ? -1 : 1; // what is not known comes last
    };
    for (const table of document.querySelectorAll("table.sorts")) {
        const heads = [...table.tHead.rows[0].cells];
        heads.forEach((head, index) => {
            const button = document.createElement("button");
            button.type = "button";
            button.append(...head.childNodes);
            head.append(button);
            button.addEventListener("click", () => {
                const up = head.getAttribute("aria-sort") === "descending"
                    || (!head.hasAttribute("aria-sort") && !head.classList.contains("num"));
                heads.forEach((each) => each.removeAttribute("aria-sort"));
                head.setAttribute("aria-sort", up ? "ascending" : "descending");
                const body = table.tBodies[0];
                const rows = [...body.rows].map((row) => [value(row, index), row]);
                rows.sort((a, b) => (up ? compare(a[0], b[0]) : compare(b[0], a[0])));
                body.append(...rows.map((each) => each[1]));
            });
        });
    }

    // -- filters, whose state is in the address
    for (const form of document.querySelectorAll("form.filter")) {
        const fields = [...form.elements].filter((field) => field.name);
        const rows = [...document.querySelectorAll(`#${form.dataset.rows} [data-k]`)];
        const keys = rows.map((row) => row.dataset.k.toLowerCase());
        const count = form.querySelector("output");
        const address = new URLSearchParams(location.search);
        for (const field of fields) {
            const asked = address.get(field.name) ?? "";
            if (field.tagName !== "SELECT" || [...field.options].some((each) => each.value === asked)) {
                field.value = asked;
            }
        }
        const show = () => {
            const asked = Object.fromEntries(fields.map((field) => [field.name, field.value.trim()]));
            const parts = asked.q.toLowerCase().split(/\s+/).filter(Boolean);
            let shown = 0;
            rows.forEach((row, index) => {
                const found = parts.every((part) => keys[index].includes(part))
                    && Object.entries(asked).every(([name, wish]) =>
                        name === "q" || !wish || (row.dataset[name] ?? "").split(" ").includes(wish));
                row.hidden = !found;
                shown += found ? 1 : 0;
            });
            count.textContent = `${shown} of ${rows.length} shown`;
            const query = new URLSearchParams();
            for (const [name, wish] of Object.entries(asked)) {
                if (wish) {
                    query.set(name, wish);
                }
            }
            const text = query.toString();
            history.replaceState(null, "", `${location.pathname}${text ? `?${text}` : ""}${location.hash}`);
        };
        form.hidden = false;
        form.addEventListener("submit", (event) => event.preventDefault());
        form.addEventListener("input", show);
        show();
    }

    // -- a link to something inside of closed details opens them
    const reveal = () => {
        const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
        for (let place = target; place; place = place.parentElement) {
            if (place.tagName === "DETAILS") {
                place.open = true;
            }
        }
        target?.scrollIntoView();
    };
    if (location.hash) {
        reveal();
    }
    addEventListener("hashchange", reveal);
})();

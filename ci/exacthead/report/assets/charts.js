// Charts by uPlot of what each figure's data-chart holds:
// {over: "step", x: [...], xs: [label, ...], "runs" for those of the dashboard, or null, series: [{name, y: [...]}], marks: [x, ...], unit: ""}
(() => {
    "use strict";

    const figures = [...document.querySelectorAll("figure[data-chart]")];
    const drawn = new Map();
    const short = (value) => {
        if (value === null || value === undefined) {
            return "";
        }
        const size = Math.abs(value);
        return size !== 0 && (size < 1e-3 || size >= 1e6) ? value.toExponential(2) : String(Number(value.toPrecision(9)));
    };

    // As many digits as tell two neighbours apart: a parity of 1.0000002 is not 1.
    const ticks = (_, values, axis, space, step) => values.map((value) => {
        const size = Math.abs(value);
        if (size !== 0 && (size < 1e-3 || size >= 1e6)) {
            return value.toExponential(1);
        }
        return value.toFixed(Math.min(9, Math.max(0, Math.ceil(-Math.log10(step)))));
    });

    const draw = (figure) => {
        const style = getComputedStyle(document.documentElement);
        const colour = (name) => style.getPropertyValue(name).trim();
        const given = JSON.parse(figure.dataset.chart);
        const place = figure.querySelector(".plot");
        drawn.get(figure)?.destroy();
        const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") }, font: "12px system-ui, sans-serif" };
        const names = given.xs === "runs" ? window.exactheadRuns : given.xs;
        const named = names && ((_, values) => values.map((at) => (Number.isInteger(at) ? names[at] ?? "" : "")));
        const single = given.x.length < 40;
        const chart = new uPlot({
            width: Math.max(place.clientWidth, 200),
            height: 176,
            // Times are seen from zero, or their noise fills the chart.
            scales: { x: { time: false }, ...(given.unit === " s" ? { y: { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.05 : 1] } } : {}) },
            legend: { live: true },
            cursor: { y: false },
            axes: [
                { ...axis, ...(named ? { values: named, space: 90 } : {}) },
                { ...axis, size: 74, values: (...asked) => ticks(...asked).map((each) => `${each}${given.unit}`) },
            ],
            series: [
                { label: given.over, value: (_, at) => (names ? names[at] ?? "" : short(at)) },
                ...given.series.map((each, index) => ({
                    label: each.name,
                    stroke: colour(`--c${(index % 6) + 1}`),
                    width: 1.75,
                    // Colour is not the only sign: each further line is dashed in its own way.
                    dash: [[], [8, 4], [2, 3], [10, 3, 2, 3], [5, 5], [1, 5]][index % 6],
                    points: { show: single, size: 5 },
                    spanGaps: true,
                    value: (_, at) => `${short(at)}${at === null || at === undefined ? "" : given.unit}`,
                })),
            ],
            hooks: {
                draw: [(self) => {
                    for (const at of given.marks) {
                        const x = self.valToPos(at, "x", true);
                        const pen = self.ctx;
                        pen.save();
                        pen.strokeStyle = colour("--c2");
                        pen.fillStyle = colour("--c2");
                        pen.lineWidth = 2 * devicePixelRatio;
                        pen.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
                        pen.beginPath();
                        pen.moveTo(x, self.bbox.top);
                        pen.lineTo(x, self.bbox.top + self.bbox.height);
                        pen.stroke();
                        pen.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
                        pen.textAlign = "center";
                        pen.fillText("▼", x, self.bbox.top);
                        pen.restore();
                    }
                }],
            },
        }, [given.x, ...given.series.map((each) => each.y)], place);
        drawn.set(figure, chart);
    };

    // Only what comes into view is drawn, so that a page with many charts is there at once.
    const seen = new IntersectionObserver((entries) => {
        for (const entry of entries) {
            if (entry.isIntersecting && !drawn.has(entry.target)) {
                draw(entry.target);
            }
        }
    }, { rootMargin: "200px" });
    figures.forEach((figure) => seen.observe(figure));
    const again = () => [...drawn.keys()].forEach(draw);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
    let waiting = 0;
    addEventListener("resize", () => {
        clearTimeout(waiting);
        waiting = setTimeout(again, 150);
    });
})();

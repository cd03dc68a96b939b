import { mount } from 'svelte';
import 'uplot/dist/uPlot.min.css';
import './style.css';
import App from './App.svelte';
import { app } from './app.svelte.ts';

mount(App, { target: document.getElementById('page')! });
app.connect();

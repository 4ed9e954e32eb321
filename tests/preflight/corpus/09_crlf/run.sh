#!/bin/bash
python bench.py

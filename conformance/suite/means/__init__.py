"""What several cases share: clients, brokers, pulls that wait, POP receipts, frames made by hand."""

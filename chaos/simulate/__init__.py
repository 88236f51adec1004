"""`lograft chaos simulate`: whole clusters on virtual time, from seeds; what fails is made smaller."""

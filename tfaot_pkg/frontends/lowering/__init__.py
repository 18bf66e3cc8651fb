"""What front-ends that lower operator by operator share: values, and the program that is built of them."""
